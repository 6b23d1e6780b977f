! All-reduces of a Fortran program through `include 'mpif.h'`.
! The argument is the largest error of a large sum, relative to the largest possible magnitude.
program fortran_mpifh
  implicit none
  include 'mpif.h'

  integer :: request
  include 'fortran_calls.inc'
end program fortran_mpifh
