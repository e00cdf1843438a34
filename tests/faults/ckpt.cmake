# With SHOAL_FULL=1 in the environment, ckpt.kill kills 200 writers instead of 20.
foreach(topic kill full)
  shoal_add_test(faults.ckpt.${topic} SOURCES faults/ckpt_${topic}.c LINK shoal_ckpt_together PkgConfig::SHOAL_HDF5
                 LABELS faults TIMEOUT 300)
endforeach()
shoal_add_test(faults.ckpt.lock SOURCES faults/ckpt_lock.c LINK shoal_ckpt LABELS faults TIMEOUT 300)
