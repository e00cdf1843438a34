# Fault injection: faults known from similar systems.
include(${CMAKE_CURRENT_LIST_DIR}/ckpt.cmake)

# Reports of users, retold (case.sh): each must end RIGHT.
foreach(case C01 C02 C03 C04 C05 C06 C07 C08 C09 C10 C11 C12 C13 C14 C15 C17 C18 C23)
  add_test(NAME faults.${case} COMMAND ${CMAKE_CURRENT_LIST_DIR}/${case}.sh)
  set_tests_properties(faults.${case} PROPERTIES LABELS "faults;noasan" TIMEOUT 300 SKIP_RETURN_CODE 77
                                                 ENVIRONMENT "SHOAL=$<TARGET_FILE:shoal>;PY=${SHOAL_PYTHON}")
endforeach()

# Malicious files: correct checksums, invalid numbers.
shoal_add_pytest(faults.crafted FILE faults/test_crafted.py LABELS faults noasan TIMEOUT 300)

# Data as people have it.
shoal_add_pytest(faults.data FILE faults/test_data.py LABELS faults noasan TIMEOUT 300)
shoal_add_pytest(faults.foreign FILE faults/test_foreign.py LABELS faults noasan TIMEOUT 300)
shoal_add_pytest(faults.mutated FILE faults/test_mutated.py LABELS faults noasan TIMEOUT 900)

# Ranks that do not answer.
shoal_add_pytest(faults.hang FILE faults/test_hang.py LABELS faults noasan TIMEOUT 300)
# The run folder: rows, attempts.
shoal_add_pytest(faults.folder FILE faults/test_folder.py LABELS faults noasan TIMEOUT 600)
# Runs disturbed at random; each entry ends with its counts.
foreach(entry steps averages apart)
  shoal_add_pytest(faults.disturbed_${entry} FILE faults/test_disturbed.py TESTS disturbed_${entry} disturbed_counts
                   LABELS faults noasan TIMEOUT 900)
endforeach()

# What every method must stand.
foreach(kind moved uneven replicas split)
  shoal_add_pytest(faults.methods_${kind} FILE faults/test_methods.py TESTS methods_${kind} LABELS faults noasan TIMEOUT 300)
endforeach()

# Disks without room, quotas, and limits of files.
add_library(quota MODULE faults/quota.c)
shoal_add_pytest(faults.disk FILE faults/test_disk.py LABELS faults noasan TIMEOUT 300)

# Signals, wherever a run is.
shoal_add_pytest(faults.stop FILE faults/test_stop.py LABELS faults noasan TIMEOUT 600)

# Ranks that must stay equal, and may take long at what one computes for all.
shoal_add_pytest(faults.alike FILE faults/test_alike.py LABELS faults noasan TIMEOUT 300)
add_library(slowsvd MODULE faults/slowsvd.c)
target_link_libraries(slowsvd PRIVATE PkgConfig::SHOAL_LAPACKE shoal_warnings)
