# Tests with several ranks.  3 and 7 find faults that powers of two hide.
shoal_add_test(mpi.comm.sum SOURCES mpi/comm_sum.c LINK shoal_comm veil RANKS 1 2 3 4 5 6 7 8 9 12 16 17 LABELS mpi TIMEOUT 240)
shoal_add_test(mpi.comm.flight SOURCES mpi/comm_flight.c LINK shoal_comm RANKS 1 2 3 4 5 7 8 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.comm.group SOURCES mpi/comm_group.c LINK shoal_comm RANKS 1 2 3 4 7 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.comm.errors SOURCES mpi/comm_errors.c LINK shoal_comm RANKS 2 3 4 10 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.comm.told SOURCES mpi/comm_told.c LINK shoal_comm RANKS 2 LABELS mpi TIMEOUT 60)
set_tests_properties(mpi.comm.told.2 PROPERTIES PASS_REGULAR_EXPRESSION "rank 0 was told")
shoal_add_test(mpi.comm.hang SOURCES mpi/comm_hang.c LINK shoal_comm RANKS 2 3 4 5 LABELS mpi TIMEOUT 180)
shoal_add_test(mpi.comm.launch SOURCES mpi/comm_launch.c LINK shoal_comm RANKS 1 2 3 LABELS mpi)
shoal_add_test(mpi.method.ab SOURCES mpi/method_ab.c unit/nn_rig.c LINK shoal_method m RANKS 1 2 3 4 8 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.comm.large SOURCES mpi/comm_large.c LINK shoal_comm RANKS 2 LABELS mpi slow TIMEOUT 120)

# Methods without the training loop, on a problem with a known solution.
add_library(method_rig STATIC mpi/method_rig.c)
target_include_directories(method_rig PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/mpi)
target_link_libraries(method_rig PUBLIC shoal_method MPI::MPI_C m PRIVATE shoal_warnings)
shoal_add_test(mpi.method.local_sgd SOURCES mpi/method_local_sgd.c LINK method_rig RANKS 1 2 3 4 8 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.method.daso SOURCES mpi/method_daso.c LINK method_rig RANKS 1 2 3 4 8 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.swarm.lockstep SOURCES mpi/swarm_lockstep.c LINK shoal_method RANKS 1 2 3 5 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.comm.rendezvous SOURCES mpi/comm_rendezvous.c LINK shoal_comm RANKS 1 2 3 5 LABELS mpi TIMEOUT 60)
shoal_add_test(mpi.swarm.suspended SOURCES mpi/swarm_suspended.c LINK shoal_method RANKS 3 LABELS mpi TIMEOUT 120)
shoal_add_test(mpi.swarm.pairs SOURCES mpi/swarm_pairs.c LINK shoal_method RANKS 2 3 5 8 LABELS mpi TIMEOUT 300)


# jobs/packages.sh sets the MPI environment of shell scripts.
add_test(NAME mpi.environment COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/mpi/environment.sh)
set_tests_properties(mpi.environment PROPERTIES LABELS "mpi;noasan" TIMEOUT 60)
