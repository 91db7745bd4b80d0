# The GPU backends (src/backend/cuda, src/backend/nccl, src/kernel), built if SHINGLE_CUDA is ON.  The
# headers of CUDA, cuBLASLt and NCCL are needed to build; to run, a driver.  cuBLASLt and NCCL are
# looked for when a group opens.  Tests of the host side need the headers alone.
find_program(CUDA_NVCC nvcc HINTS /usr/local/cuda/bin)
set(cuda_root "")
if(CUDA_NVCC)
  get_filename_component(cuda_root ${CUDA_NVCC} REALPATH)
  get_filename_component(cuda_root ${cuda_root} DIRECTORY)
  get_filename_component(cuda_root ${cuda_root} DIRECTORY)
endif()
find_path(CUDA_INCLUDE cuda_runtime_api.h HINTS ${cuda_root}/include)
find_path(CUBLASLT_INCLUDE cublasLt.h HINTS ${CUDA_INCLUDE})
find_path(NCCL_INCLUDE nccl.h HINTS ${CUDA_INCLUDE})
find_library(CUDART_STATIC cudart_static HINTS ${cuda_root}/lib64 ${cuda_root}/targets/x86_64-linux/lib)
mark_as_advanced(CUDA_NVCC CUDA_INCLUDE CUBLASLT_INCLUDE NCCL_INCLUDE CUDART_STATIC)

# The shipped machine files as text inside the library, so that a GPU finds its own.
file(GLOB machine_files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/machines/*.machine)
set(machines_h "/* Made from machines/ by cmake/Cuda.cmake. */\nstatic const struct {\n    const char *name, *text;\n} sg_machines[] = {\n")
foreach(path ${machine_files})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  get_filename_component(name ${path} NAME_WE)
  file(READ ${path} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n     \"" text "${text}")
  string(APPEND machines_h "    {\"${name}\",\n     \"${text}\"},\n")
endforeach()
string(APPEND machines_h "};\n")
set(cuda_generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(CONFIGURE OUTPUT ${cuda_generated}/machines.h CONTENT "@machines_h@" @ONLY)

# What sources of the GPU backends, and tests of them, see.
set(with_cuda_headers OFF)
if(CUDA_INCLUDE AND CUBLASLT_INCLUDE AND NCCL_INCLUDE)
  set(with_cuda_headers ON)
  add_library(shingle_cuda_headers INTERFACE)
  target_include_directories(shingle_cuda_headers INTERFACE ${cuda_generated})
  target_include_directories(shingle_cuda_headers SYSTEM INTERFACE
    ${CUDA_INCLUDE} ${CUBLASLT_INCLUDE} ${NCCL_INCLUDE})
endif()

set(cuda_objects "")
if(SHINGLE_CUDA)
  if(NOT CUDA_NVCC OR NOT with_cuda_headers OR NOT CUDART_STATIC)
    message(FATAL_ERROR "SHINGLE_CUDA=ON needs nvcc, libcudart_static and the headers of CUDA, "
      "cuBLASLt and NCCL: not all are found (install the CUDA toolkit and NCCL, or use OFF)")
  endif()
  file(GLOB kernel_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/kernel/*.cu)
  file(GLOB kernel_headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/kernel/*.h
    ${CMAKE_CURRENT_SOURCE_DIR}/src/kernel/*.cuh)
  set(kernel_flags "")
  if(NOT SHINGLE_F16)
    list(FILTER kernel_sources EXCLUDE REGEX "gemm_f16")
    set(kernel_flags -DSHINGLE_NO_F16)
  endif()
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/kernel)
  foreach(source ${kernel_sources})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/kernel/${name}.o)
    set(targets ${SHINGLE_CUDA_ARCH})
    if(name MATCHES "^gemm_b?f16") # wgmma is for Hopper alone
      set(targets -gencode=arch=compute_90a,code=sm_90a)
    endif()
    # nvcc compresses large images alone by itself, and the library would be eight times its size
    add_custom_command(OUTPUT ${object}
      COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/scripts/nvcc.sh ${CUDA_NVCC} -std=c++17 -O3 ${targets} ${kernel_flags}
        -Xfatbin -compress-all -I${CMAKE_CURRENT_SOURCE_DIR}/src
        -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-Wall
        -c ${source} -o ${object}
      DEPENDS ${source} ${kernel_headers} ${CMAKE_CURRENT_SOURCE_DIR}/src/core/walk.h VERBATIM)
    list(APPEND cuda_objects ${object})
  endforeach()
  set_source_files_properties(${cuda_objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_custom_target(shingle_kernels DEPENDS ${cuda_objects})
  target_link_libraries(shingle_objects PRIVATE shingle_cuda_headers)
  target_compile_definitions(shingle_objects PRIVATE SG_WITH_CUDA)
  set(cuda_libraries ${CUDART_STATIC} stdc++ ${CMAKE_DL_LIBS} rt)
endif()
message(STATUS "GPU backends: ${SHINGLE_CUDA}; headers for their tests: ${with_cuda_headers}")
