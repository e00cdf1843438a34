foreach(topic roundtrip)
  shoal_add_test(unit.ckpt.${topic} SOURCES unit/ckpt_${topic}.c LINK shoal_ckpt LABELS unit)
endforeach()
