foreach(topic kill full lock)
  shoal_add_test(faults.ckpt.${topic} SOURCES faults/ckpt_${topic}.c LINK shoal_ckpt LABELS faults)
endforeach()
