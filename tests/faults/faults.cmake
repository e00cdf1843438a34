# Fault injection: faults known from similar systems.
include(${CMAKE_CURRENT_LIST_DIR}/ckpt.cmake)

# Reports of users, retold (case.sh): each must end RIGHT.
foreach(case C01 C02 C03 C04 C05 C06 C07 C08 C09 C10 C11 C12 C13 C14 C15 C17 C18 C23)
  add_test(NAME faults.${case} COMMAND ${CMAKE_CURRENT_LIST_DIR}/${case}.sh)
  set_tests_properties(faults.${case} PROPERTIES LABELS "faults;noasan" TIMEOUT 300 SKIP_RETURN_CODE 77
                                                 ENVIRONMENT "SHOAL=$<TARGET_FILE:shoal>;PY=${SHOAL_PYTHON}")
endforeach()

# shoal_add_faults(file entry a b ...): faults.ENTRY is test_a, test_b, ... of test_FILE.py.  Entries run beside each other.
function(shoal_add_faults file entry)
  shoal_add_pytest(faults.${entry} FILE faults/test_${file}.py TESTS ${ARGN} LABELS faults noasan TIMEOUT 600)
endfunction()

# Malicious files: correct checksums, invalid numbers.
shoal_add_faults(crafted crafted_data data_set chunk more_than_stored damaged_header damaged_types as_much_as_stored stray_label many_classes)
shoal_add_faults(crafted crafted_trace trace trace_chunks trace_elsewhere pipes links)
shoal_add_faults(crafted crafted names_of_files attributes index metadata endless_tree memory_of_texts state attempt)

# Data as people have it.
shoal_add_pytest(faults.data FILE faults/test_data.py LABELS faults noasan TIMEOUT 300)
shoal_add_pytest(faults.foreign FILE faults/test_foreign.py LABELS faults noasan TIMEOUT 300)
shoal_add_pytest(faults.mutated FILE faults/test_mutated.py LABELS faults noasan TIMEOUT 900)

# Ranks that do not answer.
shoal_add_faults(hang hang_stopped hang_stopped hang_given_up)
shoal_add_faults(hang hang hang_start hang_saving hang_alone hang_suspended)
# The run folder: rows, attempts.
shoal_add_faults(folder folder_rows folder_rows)
shoal_add_faults(folder folder_best folder_best folder_best_branch)
shoal_add_faults(folder folder folder_rows_in_mid_epoch folder_attempts folder_full_disk folder_keep folder_array folder_suspended
                  folder_not_writable folder_everywhere folder_removed folder_unreadable folder_torn_line folder_reads folder_given_to_resume)
shoal_add_faults(folder folder_again folder_repeated folder_anew folder_emptied folder_killed folder_speed folder_rows_edited)
# Runs disturbed at random; each entry ends with its counts.
foreach(entry steps averages apart)
  shoal_add_pytest(faults.disturbed_${entry} FILE faults/test_disturbed.py TESTS disturbed_${entry} disturbed_counts
                   LABELS faults noasan TIMEOUT 900)
endforeach()

# What every method must stand.
foreach(kind moved uneven replicas split)
  shoal_add_faults(methods methods_${kind} methods_${kind})
endforeach()

# Disks without room, quotas, and limits of files.
add_library(quota MODULE faults/quota.c)
add_library(oddfs MODULE faults/oddfs.c)
target_link_libraries(oddfs PRIVATE ${CMAKE_DL_LIBS})
shoal_add_faults(disk disk_full disk_full disk_full_writers)
shoal_add_faults(disk disk disk_limit_at_start disk_limit disk_small disk_quota disk_odd disk_inodes disk_trace disk_trace_cut disk_stage)

# Signals, wherever a run is.
shoal_add_faults(stop stop_start stop_start)
shoal_add_faults(stop stop_evaluation stop_evaluation)
shoal_add_faults(stop stop_round stop_round)
shoal_add_faults(stop stop_apart stop_lockstep stop_votes_late)
shoal_add_faults(stop stop stop_saving stop_waiting stop_interrupted stop_killed stop_said_at_once stop_lead_known stop_method)

# Ranks that must stay equal, and may take long at what one computes for all.
shoal_add_pytest(faults.alike FILE faults/test_alike.py LABELS faults noasan TIMEOUT 300)
add_library(slowsvd MODULE faults/slowsvd.c)
target_link_libraries(slowsvd PRIVATE PkgConfig::SHOAL_LAPACKE shoal_warnings)
