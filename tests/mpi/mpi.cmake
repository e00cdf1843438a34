# Tests that need several ranks.  3 and 7 find what powers of two hide.
foreach(topic sum flight group)
  shoal_add_test(mpi.comm.${topic} SOURCES mpi/comm_${topic}.c LINK shoal_comm RANKS 1 2 3 4 7 LABELS mpi TIMEOUT 120)
endforeach()
shoal_add_test(mpi.comm.hang SOURCES mpi/comm_hang.c LINK shoal_comm RANKS 2 3 4 LABELS mpi)
shoal_add_test(mpi.comm.launch SOURCES mpi/comm_launch.c LINK shoal_comm RANKS 1 2 3 LABELS mpi)
shoal_add_test(mpi.comm.large SOURCES mpi/comm_large.c LINK shoal_comm RANKS 2 LABELS mpi slow TIMEOUT 120)
