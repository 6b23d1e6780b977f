! All-reduces of a Fortran program through `use mpi_f08`.
! The argument is the largest error of a large sum, relative to the largest possible magnitude.
program fortran_f08
  use mpi_f08
  implicit none

  type(MPI_Request) :: request
  include 'fortran_calls.inc'
end program fortran_f08
