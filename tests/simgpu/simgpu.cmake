# A simulated GPU: libraries with the names of CUDA's, which the loader finds first when LD_LIBRARY_PATH names their folder.  The
# programs are built for a real one and do not know.  docs/gpu.md says what is simulated and what is not.
set(simgpu ${CMAKE_CURRENT_SOURCE_DIR}/simgpu)
set(SIMGPU_FOLDER ${CMAKE_CURRENT_BINARY_DIR}/simgpu)

# Twins of kernels: the `.cu` files once more, for the host (simgpu/twin.h).  No contraction, as in the build for the device.
set(twins)
foreach(file ${simgpu}/samples.cu ${SHOAL_CUDA_KERNEL_FILES})
  get_filename_component(name ${file} NAME_WE)
  file(CONFIGURE OUTPUT ${SIMGPU_FOLDER}/twin_${name}.cpp CONTENT "#include \"${file}\"\n")
  list(APPEND twins ${SIMGPU_FOLDER}/twin_${name}.cpp)
endforeach()
add_library(simgpu_twins OBJECT ${twins})
target_compile_options(simgpu_twins PRIVATE -include ${simgpu}/twin.h -fsanitize=thread -O2 -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas)

add_library(simgpu_cudart SHARED ${simgpu}/runtime.cpp ${simgpu}/graphs.cpp ${simgpu}/kernels.cpp ${simgpu}/contracts.cpp $<TARGET_OBJECTS:simgpu_twins>)
foreach(target simgpu_twins simgpu_cudart)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endforeach()
set_target_properties(simgpu_twins PROPERTIES CXX_VISIBILITY_PRESET hidden) # programs have functions of the same names

# simgpu_library(target NAME library SOVERSION n): under the name, and with the symbol versions, that programs ask for
function(simgpu_library target)
  cmake_parse_arguments(L "" "NAME;SOVERSION" "" ${ARGN})
  set(soname lib${L_NAME}.so.${L_SOVERSION})
  file(WRITE ${SIMGPU_FOLDER}/${L_NAME}.map "${soname} { global: *; };\n")
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter $<$<BOOL:${SHOAL_WERROR}>:-Werror>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT ${target} STREQUAL simgpu_cudart)
    target_link_libraries(${target} PRIVATE simgpu_cudart)
  endif()
  target_link_options(${target} PRIVATE LINKER:--version-script=${SIMGPU_FOLDER}/${L_NAME}.map)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${L_NAME} SOVERSION ${L_SOVERSION} LIBRARY_OUTPUT_DIRECTORY ${SIMGPU_FOLDER})
endfunction()
simgpu_library(simgpu_cudart NAME cudart SOVERSION ${CUDAToolkit_VERSION_MAJOR})

add_library(simgpu_cublas SHARED ${simgpu}/cublas.cpp)
simgpu_library(simgpu_cublas NAME cublas SOVERSION ${CUDAToolkit_VERSION_MAJOR})
add_library(simgpu_cublaslt SHARED ${simgpu}/cublaslt.cpp)
simgpu_library(simgpu_cublaslt NAME cublasLt SOVERSION ${CUDAToolkit_VERSION_MAJOR})
if(SHOAL_WITH_CUDNN)
  # Its version is in its header.
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h major REGEX "#define CUDNN_MAJOR")
  string(REGEX MATCH "[0-9]+" major "${major}")
  add_library(simgpu_cudnn SHARED ${simgpu}/cudnn.cpp ${PROJECT_SOURCE_DIR}/src/tensor/ref/conv.c)
  simgpu_library(simgpu_cudnn NAME cudnn SOVERSION ${major})
  target_include_directories(simgpu_cudnn SYSTEM PRIVATE ${CUDNN_INCLUDE_DIR})
  file(WRITE ${SIMGPU_FOLDER}/without_cudnn/libcudnn.so.${major} "no library\n") # which cannot be loaded
endif()
if(SHOAL_WITH_NCCL)
  add_library(simgpu_nccl SHARED ${simgpu}/nccl.cpp)
  simgpu_library(simgpu_nccl NAME nccl SOVERSION 2)
  target_include_directories(simgpu_nccl SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
endif()
# MPI that takes device memory: put before the real one by LD_PRELOAD, also of programs that have no MPI, so it names none.
add_library(simgpu_mpi SHARED ${simgpu}/mpi.c)
target_compile_options(simgpu_mpi PRIVATE -Wall -Wextra $<$<BOOL:${SHOAL_WERROR}>:-Werror>)
target_include_directories(simgpu_mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
target_link_options(simgpu_mpi PRIVATE -Wl,-z,lazy)
set_target_properties(simgpu_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${SIMGPU_FOLDER})
add_custom_target(simgpu DEPENDS simgpu_mpi simgpu_cudart simgpu_cublas simgpu_cublaslt $<TARGET_NAME_IF_EXISTS:simgpu_cudnn> $<TARGET_NAME_IF_EXISTS:simgpu_nccl>)

# shoal_on_simgpu(tests...): these run on it
function(shoal_on_simgpu)
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT LD_LIBRARY_PATH=${SIMGPU_FOLDER})
  set_property(TEST ${ARGN} APPEND PROPERTY LABELS simgpu noasan)
endfunction()

shoal_add_test(simgpu.mistakes SOURCES simgpu/mistakes.c simgpu/samples.cu LINK shoal_base CUDA::cudart ${CMAKE_DL_LIBS} LABELS unit)
add_dependencies(simgpu.mistakes simgpu)
shoal_on_simgpu(simgpu.mistakes)
set_property(TEST simgpu.mistakes APPEND PROPERTY ENVIRONMENT SIMGPU_DEVICES=2)

# The suite of all backends (unit/tensor.cmake).  A simulated device that is missing is no reason to skip.  Each seed is another
# kind of order of streams, blocks and threads; one of them unless SHOAL_FULL=1.
set(seeds 1)
if("$ENV{SHOAL_FULL}" STREQUAL 1)
  set(seeds 1 2 3)
endif()
foreach(seed IN LISTS seeds)
  add_test(NAME unit.tensor.cuda.${seed} COMMAND unit.tensor.ref cuda)
  set_tests_properties(unit.tensor.cuda.${seed} PROPERTIES TIMEOUT 300 LABELS unit)
  shoal_on_simgpu(unit.tensor.cuda.${seed})
  set_property(TEST unit.tensor.cuda.${seed} APPEND PROPERTY ENVIRONMENT SIMGPU_SEED=${seed})
endforeach()
if(SHOAL_WITH_CUDNN) # and its convolutions where cuDNN cannot be loaded
  foreach(products f32 bf16)
    set(test unit.tensor.cuda.patches_${products})
    add_test(NAME ${test} COMMAND unit.tensor.ref cuda 1 conv ${products})
    set_tests_properties(${test} PROPERTIES TIMEOUT 300 ENVIRONMENT LD_LIBRARY_PATH=${SIMGPU_FOLDER}/without_cudnn:${SIMGPU_FOLDER}
      LABELS "unit;simgpu;noasan")
  endforeach()
endif()
foreach(what linear_tf32 linear_bf16 conv_bf16) # of factors that are rounded
  string(REPLACE _ ";" topic ${what})
  add_test(NAME unit.tensor.cuda.${what} COMMAND unit.tensor.ref cuda 1 ${topic})
  set_tests_properties(unit.tensor.cuda.${what} PROPERTIES TIMEOUT 300 LABELS unit)
  shoal_on_simgpu(unit.tensor.cuda.${what})
endforeach()
shoal_add_test(unit.tensor.cuda_own SOURCES simgpu/cuda_own.c LINK shoal_tensor CUDA::cudart ${CMAKE_DL_LIBS} LABELS unit)
add_dependencies(unit.tensor.cuda_own simgpu)
add_dependencies(unit.tensor.ref simgpu)
shoal_on_simgpu(unit.tensor.cuda_own)

# Sums between devices, one for each rank.
if(SHOAL_WITH_NCCL)
  shoal_add_test(simgpu.nccl_mistakes SOURCES simgpu/nccl_mistakes.c LINK shoal_base simgpu_nccl CUDA::cudart ${CMAKE_DL_LIBS} LABELS unit)
  target_include_directories(simgpu.nccl_mistakes SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
  target_link_options(simgpu.nccl_mistakes PRIVATE LINKER:--allow-shlib-undefined) # of the stand-in for the run time
  set_property(TARGET simgpu.nccl_mistakes PROPERTY SKIP_BUILD_RPATH TRUE) # it would name the real library, too
  shoal_on_simgpu(simgpu.nccl_mistakes)
  set_property(TEST simgpu.nccl_mistakes APPEND PROPERTY ENVIRONMENT SIMGPU_DEVICES=2)
  shoal_add_test(simgpu.nccl SOURCES simgpu/nccl_sums.c LINK shoal_comm ${CMAKE_DL_LIBS} RANKS 2 4 LABELS mpi TIMEOUT 120)
  add_dependencies(simgpu.nccl simgpu)
  set(start ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 ${MPIEXEC_PREFLAGS})
  foreach(how right wrong)
    string(COMPARE EQUAL ${how} right is_right)
    math(EXPR ranks "2 + 2 * ${is_right}")
    add_test(NAME simgpu.nccl.mpi_${how} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
      env LD_PRELOAD=$<TARGET_FILE:simgpu_mpi> SIMGPU_MPI=${how} $<TARGET_FILE:simgpu.nccl> mpi_${how})
    set_tests_properties(simgpu.nccl.mpi_${how} PROPERTIES TIMEOUT 120 LABELS mpi)
  endforeach()
  add_test(NAME simgpu.nccl.shared COMMAND ${start} $<TARGET_FILE:simgpu.nccl> shared)
  # mpiexec sees the shells, which go on
  add_test(NAME simgpu.nccl.lost COMMAND ${start} sh -c "'$<TARGET_FILE:simgpu.nccl>' lost; sleep 20")
  set_tests_properties(simgpu.nccl.shared simgpu.nccl.lost PROPERTIES TIMEOUT 60 LABELS mpi)
  set_tests_properties(simgpu.nccl.lost PROPERTIES PASS_REGULAR_EXPRESSION "told: rank 1")
  set(nccl simgpu.nccl.2 simgpu.nccl.4 simgpu.nccl.shared simgpu.nccl.lost simgpu.nccl.mpi_right simgpu.nccl.mpi_wrong)
  shoal_on_simgpu(${nccl})
  # what was freed is overwritten, as no sanitizer looks here
  set_property(TEST ${nccl} APPEND PROPERTY ENVIRONMENT SIMGPU_DEVICES=4 MALLOC_PERTURB_=85)
endif()

# Whole runs on it.
foreach(topic methods targets resume devices errors products launches recompute graphs graphs_resume)
  shoal_add_pytest(train.cuda_${topic} FILE simgpu/test_cuda.py TESTS cuda_${topic} LABELS train simgpu noasan TIMEOUT 1800)
endforeach()
