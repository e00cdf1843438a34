foreach(topic error crc32c rng str file log json cgroup bus pause)
  shoal_add_test(unit.base.${topic} SOURCES unit/base_${topic}.c LINK shoal_base LABELS unit)
  # a CHECK without a message prints an empty format
  target_compile_options(unit.base.${topic} PRIVATE -Wno-format-zero-length)
endforeach()
# allocates more memory than any machine has, which the address sanitizer would report
set_tests_properties(unit.base.str PROPERTIES ENVIRONMENT ASAN_OPTIONS=allocator_may_return_null=1)
