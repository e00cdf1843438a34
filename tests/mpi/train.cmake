# Whole runs of the program, a ctest entry per topic: train.TOPIC is test_TOPIC of the file unless TESTS is given.
function(shoal_add_runs file)
  foreach(topic IN LISTS ARGN)
    shoal_add_pytest(train.${topic} FILE mpi/test_${file}.py TESTS ${topic} LABELS train noasan)
  endforeach()
endfunction()

shoal_add_runs(train ranks resume moved statistics bytes trace algorithms uneven long_messages signals killed killed_saving locks
               damaged heard lost apart replicas numeric folder singletons cores placement)
shoal_add_pytest(train.refusals FILE mpi/test_train.py TESTS bad_options bad_resume LABELS train noasan)
shoal_add_pytest(train.claims FILE mpi/test_train.py TESTS claims_refused claims_unheard LABELS train noasan)
shoal_add_pytest(train.matches FILE mpi/test_matches.py LABELS train noasan)
shoal_add_pytest(train.dtype FILE mpi/test_dtype.py LABELS train noasan)
shoal_add_pytest(train.golden FILE mpi/test_golden.py LABELS train noasan)
shoal_add_pytest(train.away FILE mpi/test_away.py LABELS train noasan)
shoal_add_pytest(train.shards FILE mpi/test_shards.py LABELS train noasan)
shoal_add_runs(swarm swarm_neutral swarm_lockstep swarm_moved swarm_bytes swarm_free swarm_batchnorm swarm_statistics swarm_straggler swarm_lost)
shoal_add_runs(average localsgd_neutral localsgd_resume localsgd_numeric localsgd_settings localsgd_refused average_statistics
               daso_neutral daso_resume daso_moved daso_placement daso_events daso_alone daso_numeric daso_settings daso_refused daso_killed
               daso_round daso_disk)
shoal_add_runs(ab ab_neutral ab_phases ab_bytes ab_resume ab_changed ab_only_b ab_alone ab_refused)
shoal_add_runs(ist ist_neutral ist_bytes ist_model ist_resume ist_moved ist_refused ist_few ist_described ist_learns)
shoal_add_pytest(train.errors FILE mpi/test_errors.py LABELS train noasan)
shoal_add_runs(switch switch)
shoal_add_pytest(train.predict FILE mpi/test_predict.py LABELS train noasan)
shoal_add_runs(classes classes_torch classes_methods classes_resume classes_bits classes_told classes_refused)
shoal_add_runs(targets targets_linear targets_predicted targets_methods targets_images targets_refused)
shoal_add_runs(doctor doctor_well doctor_pairs doctor_here doctor_faults doctor_full)
shoal_add_runs(launch launch_bits launch_codes launch_stops launch_first_moments launch_unread)
shoal_add_runs(weights weights_methods weights_drawn weights_statistics weights_killed weights_fresh weights_refused)
shoal_add_runs(network network_methods network_groups network_text network_vocabulary network_transformers network_tied network_recompute network_name network_rows network_channels_last network_refused)
shoal_add_runs(progress progress_live progress_left progress_unread progress_logged progress_again progress_never progress_status)
shoal_add_runs(numbers numbers_methods numbers_data numbers_kinds numbers_places numbers_end numbers_guessing numbers_too_short numbers_range numbers_again numbers_few)
shoal_add_pytest(train.numbers_test_split FILE mpi/test_numbers.py TESTS numbers_test_split numbers_test_split_far numbers_test_split_measured
                 numbers_test_split_none LABELS train noasan)

add_executable(train.local.oracle_program mpi/local_oracle.c unit/nn_rig.c)
target_include_directories(train.local.oracle_program PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(train.local.oracle_program PRIVATE shoal_method m shoal_warnings)
shoal_add_runs(local local_oracle local_residual local_forms local_neutral local_heads local_replicas local_bytes local_resume
               local_recut local_replay local_measured local_ends local_refused local_alone)
