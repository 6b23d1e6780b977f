! All-reduces of a Fortran program through `include 'mpif.h'`.
! The argument is the largest error of a large sum, relative to the largest possible magnitude.
program fortran_mpifh

  implicit none
      include 'mpif.h'
  integer, parameter :: large = 200000
  real, allocatable :: x(:), y(:)
  double precision, allocatable :: d(:)
  integer :: ierr, rank, ranks, i, level, bad, all_bad
  integer :: request
  real :: tolerance
  character(len=32) :: argument

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, level, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, argument)
  read (argument, *) tolerance
  allocate (x(large), y(large), d(large))
  bad = 0

  x = (/(real(mod(rank*31 + i*7, 23) - 11), i=1, large)/)
  call MPI_Allreduce(x, y, large, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (.not. near(y)) bad = bad + 1
  call MPI_Iallreduce(x, y, large, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  if (.not. near(y)) bad = bad + 1
  call MPI_Allreduce(MPI_IN_PLACE, x, large, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (.not. near(x)) bad = bad + 1
  d = dble(rank)
  call MPI_Allreduce(MPI_IN_PLACE, d, large, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (any(d /= dble(ranks*(ranks - 1)/2))) bad = bad + 1

  call MPI_Allreduce(bad, all_bad, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. all_bad == 0) print '(a)', 'fortran: ok'
  if (all_bad /= 0) print *, 'rank', rank, 'has', bad, 'bad results'
  call MPI_Finalize(ierr)

contains

  logical function near(z)
    real, intent(in) :: z(:)
    real :: total
    integer :: k, r
    near = .true.
    do k = 1, large
      total = 0
      do r = 0, ranks - 1
        total = total + real(mod(r*31 + k*7, 23) - 11)
      end do
      if (abs(z(k) - total) > tolerance*11*ranks) near = .false.
    end do
  end function near
end program fortran_mpifh
