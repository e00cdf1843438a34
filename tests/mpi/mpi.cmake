# Tests that need several ranks.  3 and 7 find what powers of two hide.
shoal_add_test(mpi.comm.sum SOURCES mpi/comm_sum.c LINK shoal_comm RANKS 1 2 3 4 5 7 8 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.comm.flight SOURCES mpi/comm_flight.c LINK shoal_comm RANKS 1 2 3 4 5 7 8 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.comm.group SOURCES mpi/comm_group.c LINK shoal_comm RANKS 1 2 3 4 7 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.comm.hang SOURCES mpi/comm_hang.c LINK shoal_comm RANKS 2 3 4 5 LABELS mpi)
shoal_add_test(mpi.comm.launch SOURCES mpi/comm_launch.c LINK shoal_comm RANKS 1 2 3 LABELS mpi)
shoal_add_test(mpi.comm.large SOURCES mpi/comm_large.c LINK shoal_comm RANKS 2 LABELS mpi slow TIMEOUT 120)
shoal_add_test(mpi.swarm.lockstep SOURCES mpi/swarm_lockstep.c LINK shoal_method RANKS 1 2 3 5 LABELS mpi TIMEOUT 120)
