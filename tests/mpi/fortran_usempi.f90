! All-reduces of a Fortran program through `use mpi`.
! The argument is the largest error of a large sum, relative to the largest possible magnitude.
program fortran_usempi
  use mpi
  implicit none

  integer :: request
  include 'fortran_calls.inc'
end program fortran_usempi
