# Tests that need several ranks.  3 and 7 find what powers of two hide.
foreach(topic sum flight group)
  shoal_add_test(mpi.comm.${topic} SOURCES mpi/comm_${topic}.c LINK shoal_comm RANKS 1 2 3 4 7 LABELS mpi TIMEOUT 120)
endforeach()
