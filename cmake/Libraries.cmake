# Foreign libraries.  Shingle itself needs none but threads: LIBXSMM and CBLAS are used where found,
# the rest serves the command, the tests and the benchmarks.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig)

# Requires a pkg-config package for PURPOSE; otherwise says what to install or to switch off.
macro(shingle_need package target purpose debian option)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(${target} QUIET IMPORTED_TARGET ${package})
  endif()
  if(NOT ${target}_FOUND)
    message(FATAL_ERROR "${purpose} needs ${package}, which pkg-config does not find: "
      "install it (Debian, Ubuntu: ${debian} and pkg-config) or configure with -D${option}=OFF")
  endif()
endmacro()

# ---- LIBXSMM: the tile engine of x86-64 ----------------------------------------------------------------

set(with_xsmm OFF)
if(NOT SHINGLE_XSMM STREQUAL "OFF")
  find_path(XSMM_INCLUDE libxsmm.h)
  find_library(XSMM_LIBRARY xsmm)
  find_library(XSMM_NOBLAS_LIBRARY xsmmnoblas)
  mark_as_advanced(XSMM_INCLUDE XSMM_LIBRARY XSMM_NOBLAS_LIBRARY)
  if(XSMM_INCLUDE AND XSMM_LIBRARY AND XSMM_NOBLAS_LIBRARY)
    set(with_xsmm ON)
  elseif(NOT SHINGLE_XSMM STREQUAL "AUTO")
    message(FATAL_ERROR "SHINGLE_XSMM=${SHINGLE_XSMM}, but libxsmm.h, libxsmm and libxsmmnoblas are "
      "not all found: install them (Debian, Ubuntu on x86-64: libxsmm-dev) or use AUTO or OFF")
  endif()
endif()

# ---- CBLAS: the tile engine of other machines ------------------------------------------------------------

# The name that a library is loaded by is in the library: libopenblas.so.0 of libopenblas.so.
function(shingle_load_name library name_out)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE about ERROR_QUIET)
  if(about MATCHES "SONAME +([^ \n]+)")
    set(${name_out} ${CMAKE_MATCH_1} PARENT_SCOPE)
  else() # no shared library
    set(${name_out} "" PARENT_SCOPE)
  endif()
endfunction()

set(with_cblas OFF)
if(NOT SHINGLE_CBLAS STREQUAL "OFF")
  foreach(package openblas cblas blis)
    if(PKG_CONFIG_FOUND AND NOT with_cblas)
      pkg_check_modules(CBLAS_${package} QUIET IMPORTED_TARGET ${package})
      set(cblas_name "")
      if(CBLAS_${package}_FOUND)
        list(GET CBLAS_${package}_LINK_LIBRARIES 0 cblas_path)
        shingle_load_name(${cblas_path} cblas_name)
      endif()
      if(cblas_name)
        set(with_cblas ON)
        set(cblas_target PkgConfig::CBLAS_${package})
        set(cblas_package ${package})
      endif()
    endif()
  endforeach()
  if(NOT with_cblas AND NOT SHINGLE_CBLAS STREQUAL "AUTO")
    message(FATAL_ERROR "SHINGLE_CBLAS=${SHINGLE_CBLAS}, but pkg-config finds a shared library "
      "neither of openblas, of cblas nor of blis: install one (Debian, Ubuntu: libopenblas-dev) or use AUTO or OFF")
  endif()
endif()

# What sources see: SG_WITH_XSMM, the name and path that a CBLAS is loaded by, and the headers.  What
# links: tile_libraries.  libxsmm calls BLAS for products it has no kernel for, which we never ask for;
# libxsmmnoblas stands in.  A CBLAS is not linked: micro.c loads it where it is what multiplies.
add_library(shingle_tiles INTERFACE)
set(tile_libraries "")
if(with_cblas)
  target_compile_definitions(shingle_tiles INTERFACE
    SG_CBLAS_NAME="${cblas_name}" SG_CBLAS_PATH="${cblas_path}")
  get_target_property(cblas_include ${cblas_target} INTERFACE_INCLUDE_DIRECTORIES)
  if(cblas_include)
    target_include_directories(shingle_tiles SYSTEM INTERFACE ${cblas_include})
  endif()
endif()
if(with_xsmm)
  target_compile_definitions(shingle_tiles INTERFACE SG_WITH_XSMM)
  target_include_directories(shingle_tiles SYSTEM INTERFACE ${XSMM_INCLUDE})
  list(APPEND tile_libraries ${XSMM_LIBRARY} ${XSMM_NOBLAS_LIBRARY})
endif()
list(APPEND tile_libraries ${CMAKE_DL_LIBS})

# ---- What benchmarks compare with -------------------------------------------------------------------------

add_library(shingle_rivals INTERFACE)
if(SHINGLE_BENCH)
  if(with_cblas)
    target_compile_definitions(shingle_rivals INTERFACE SG_WITH_CBLAS)
    target_link_libraries(shingle_rivals INTERFACE ${cblas_target})
  endif()
  find_package(dnnl QUIET)
  if(dnnl_FOUND)
    target_compile_definitions(shingle_rivals INTERFACE SG_WITH_DNNL)
    target_link_libraries(shingle_rivals INTERFACE DNNL::dnnl)
  endif()
endif()

message(STATUS "shingle ${PROJECT_VERSION}: LIBXSMM ${with_xsmm}, CBLAS ${with_cblas} (${cblas_package})")
