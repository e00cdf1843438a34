shoal_add_test(unit.tensor.half SOURCES unit/tensor_half.c LINK shoal_tensor LABELS unit)
shoal_add_test(unit.tensor.subnormal SOURCES unit/tensor_subnormal.c LINK shoal_tensor LABELS unit)
shoal_add_test(unit.tensor.op SOURCES unit/tensor_op.c LINK shoal_tensor LABELS unit)
shoal_add_test(unit.tensor.quant SOURCES unit/tensor_quant.c LINK shoal_tensor m LABELS unit)
# One suite, run once per backend.
shoal_add_test(unit.tensor.ref
  SOURCES unit/tensor_suite.c unit/tensor_mirror.c veil/wrapper.c unit/tensor_rig.c unit/tensor_cases.c unit/tensor_ops.c unit/tensor_gradients.c
          unit/tensor_golden.c unit/tensor_chain.c unit/tensor_dropout.c unit/tensor_flat.c unit/tensor_arena.c
  LINK shoal_tensor ARGS ref LABELS unit TIMEOUT 300)
add_test(NAME unit.tensor.cpu COMMAND unit.tensor.ref cpu 2)
set_tests_properties(unit.tensor.cpu PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS unit)
# The processor need not have bf16: oneDNN computes it by instructions of f32 then.
add_test(NAME unit.tensor.cpu_bf16 COMMAND unit.tensor.ref cpu 2 ops bf16)
set_tests_properties(unit.tensor.cpu_bf16 PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS unit)
if(NOT SHOAL_WITH_CUDA) # else in simgpu/simgpu.cmake
  add_test(NAME unit.tensor.cuda.1 COMMAND unit.tensor.ref cuda)
  set_tests_properties(unit.tensor.cuda.1 PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 60 LABELS unit)
endif()
shoal_add_test(unit.tensor.winograd SOURCES unit/tensor_winograd.c unit/tensor_rig.c unit/tensor_cases.c
               LINK shoal_tensor LABELS unit TIMEOUT 120)
# Times and errors of its layers; run by hand, see the file.
add_executable(bench.winograd EXCLUDE_FROM_ALL bench/winograd.c unit/tensor_rig.c)
target_include_directories(bench.winograd PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(bench.winograd PRIVATE shoal_tensor shoal_warnings)
shoal_add_test(unit.tensor.cpu_own SOURCES unit/tensor_cpu.c unit/tensor_rig.c unit/tensor_cases.c LINK shoal_tensor
               TIMEOUT 300 LABELS unit)
shoal_add_test(unit.tensor.conv SOURCES unit/tensor_conv.c unit/tensor_rig.c unit/tensor_cases.c LINK shoal_tensor
               LABELS unit TIMEOUT 300)
# oneDNN has kernels for each instruction set: test those for older processors on every machine.
foreach(isa AVX2 SSE41)
  add_test(NAME unit.tensor.cpu.${isa} COMMAND unit.tensor.ref cpu 2)
  add_test(NAME unit.tensor.conv.${isa} COMMAND unit.tensor.conv)
  set_tests_properties(unit.tensor.cpu.${isa} unit.tensor.conv.${isa} PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS unit ENVIRONMENT ONEDNN_MAX_CPU_ISA=${isa})
endforeach()
add_test(NAME unit.tensor.winograd.AVX2 COMMAND unit.tensor.winograd)
set_tests_properties(unit.tensor.winograd.AVX2 PROPERTIES TIMEOUT 120 LABELS unit ENVIRONMENT ONEDNN_MAX_CPU_ISA=AVX2)
shoal_add_test(unit.tensor.alike SOURCES unit/tensor_alike.c LINK shoal_tensor DNNL::dnnl OpenMP::OpenMP_C LABELS unit)
shoal_add_test(unit.tensor.guard SOURCES unit/tensor_guard.c LINK shoal_tensor ${CMAKE_DL_LIBS} LABELS unit noasan)
