foreach(topic option args)
  shoal_add_test(unit.config.${topic} SOURCES unit/config_${topic}.c LINK shoal_config LABELS unit)
  target_compile_options(unit.config.${topic} PRIVATE -Wno-format-zero-length)
endforeach()
