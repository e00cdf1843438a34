# Whole runs of the program; see mpi/train_cases.py for what each case shows.
foreach(case ranks resume moved statistics bytes trace algorithms uneven long_messages signals killed killed_saving locks damaged refusals heard lost apart replicas numeric folder singletons cores placement claims)
  add_test(NAME train.${case} COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/train_cases.py $<TARGET_FILE:shoal> ${case})
  set_tests_properties(train.${case} PROPERTIES LABELS "train;noasan" TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()

# The same for swarm: mpi/swarm_cases.py.
foreach(case swarm_neutral swarm_lockstep swarm_bytes swarm_free swarm_batchnorm swarm_straggler swarm_lost)
  add_test(NAME train.${case} COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/swarm_cases.py $<TARGET_FILE:shoal> ${case})
  set_tests_properties(train.${case} PROPERTIES LABELS "train;noasan" TIMEOUT 300)
endforeach()

# The same for methods that average parameters: mpi/average_cases.py.
foreach(case localsgd_neutral localsgd_resume localsgd_numeric localsgd_settings average_statistics
        daso_neutral daso_resume daso_moved daso_events daso_alone daso_numeric daso_settings daso_killed daso_round daso_disk)
  add_test(NAME train.${case} COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/average_cases.py $<TARGET_FILE:shoal> ${case})
  set_tests_properties(train.${case} PROPERTIES LABELS "train;noasan" TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()

# The same for AB-training: mpi/ab_cases.py.
foreach(case ab_neutral ab_phases ab_bytes ab_resume ab_changed ab_only_b ab_refusals)
  add_test(NAME train.${case} COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/ab_cases.py $<TARGET_FILE:shoal> ${case})
  set_tests_properties(train.${case} PROPERTIES LABELS "train;noasan" TIMEOUT 300)
endforeach()

# The same for independent subnets: mpi/ist_cases.py.
foreach(case ist_neutral ist_bytes ist_model ist_resume ist_moved ist_refusals ist_learns)
  add_test(NAME train.${case} COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/ist_cases.py $<TARGET_FILE:shoal> ${case})
  set_tests_properties(train.${case} PROPERTIES LABELS "train;noasan" TIMEOUT 300)
endforeach()

# From every method to every other: mpi/switch_cases.py.
add_test(NAME train.switch COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/switch_cases.py $<TARGET_FILE:shoal> switch)
set_tests_properties(train.switch PROPERTIES LABELS "train;noasan" TIMEOUT 300)

# Checkpoints of earlier versions, resumed: mpi/golden_cases.py.
add_test(NAME train.golden COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/golden_cases.py $<TARGET_FILE:shoal>)
set_tests_properties(train.golden PROPERTIES LABELS "train;noasan" TIMEOUT 300)
