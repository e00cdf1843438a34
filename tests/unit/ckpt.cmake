foreach(topic roundtrip damage folder print)
  shoal_add_test(unit.ckpt.${topic} SOURCES unit/ckpt_${topic}.c LINK shoal_ckpt LABELS unit)
endforeach()
