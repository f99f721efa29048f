# Optional parts: OpenSSL, UCX, PMIx, httplib, CUDA, OpenBLAS, oneDNN, Open MPI. Each is looked for in one way, by
# weft_optional(), and half of a part is none: a header without its library, a library that does not link, a compiler
# wrapper that fails. Then one line says what is left out and why, and the rest builds. tests/configure_test.cmake breaks
# each of them.

include(CheckCXXSourceCompiles)

# weft_optional(NAME HEADER file LIBRARIES name... CALLS expression ABSENT consequence
#               [ARCHIVES] [HINTS folder...] [SUFFIXES folder...] [LINK more...] [DEFINES macro...])
# Sets WEFT_HAVE_<NAME>, <NAME>_INCLUDE and <NAME>_LIBRARIES for the caller. A program that includes the header and calls the
# expression must compile and link. ARCHIVES: .a before shared libraries.
function(weft_optional name)
  cmake_parse_arguments(ARG "ARCHIVES" "HEADER;CALLS;ABSENT" "LIBRARIES;HINTS;SUFFIXES;LINK;DEFINES" ${ARGN})
  set(lacking)
  set(some OFF)
  set(libraries)
  find_path(${name}_INCLUDE ${ARG_HEADER} HINTS ${ARG_HINTS} PATH_SUFFIXES ${ARG_SUFFIXES})
  if(${name}_INCLUDE AND EXISTS ${${name}_INCLUDE}/${ARG_HEADER})
    set(some ON)
  else()
    list(APPEND lacking ${ARG_HEADER})
  endif()
  foreach(library ${ARG_LIBRARIES})
    if(ARG_ARCHIVES)
      find_library(${name}_LIBRARY_${library} NAMES lib${library}.a ${library} HINTS ${ARG_HINTS})
    else()
      find_library(${name}_LIBRARY_${library} NAMES ${library} HINTS ${ARG_HINTS})
    endif()
    if(${name}_LIBRARY_${library} AND EXISTS ${${name}_LIBRARY_${library}})
      set(some ON)
      list(APPEND libraries ${${name}_LIBRARY_${library}})
    else()
      list(APPEND lacking lib${library})
    endif()
  endforeach()
  set(works OFF)
  if(NOT lacking)
    set(CMAKE_REQUIRED_QUIET ON)
    set(CMAKE_REQUIRED_INCLUDES ${${name}_INCLUDE})
    set(CMAKE_REQUIRED_LIBRARIES ${libraries} ${ARG_LINK} ${CMAKE_DL_LIBS})
    list(TRANSFORM ARG_DEFINES PREPEND -D OUTPUT_VARIABLE CMAKE_REQUIRED_DEFINITIONS)
    check_cxx_source_compiles("#include <${ARG_HEADER}>\nint main() { ${ARG_CALLS}; }" ${name}_WORKS)
    if(${name}_WORKS)
      set(works ON)
    else()
      unset(${name}_WORKS CACHE)  # looked at again next time: it may have been mended
      set(lacking "a program that uses it does not build")
    endif()
  endif()
  if(works)
  elseif(some)
    list(JOIN lacking ", " lacking)
    message(STATUS "${name} is only half installed (missing: ${lacking}): ${ARG_ABSENT}")
  else()
    message(STATUS "${name} not found: ${ARG_ABSENT}")
  endif()
  set(WEFT_HAVE_${name} ${works} PARENT_SCOPE)
  set(${name}_LIBRARIES ${libraries} PARENT_SCOPE)
endfunction()

# The target of a part, for programs that are not installed: weft_cblas, weft_openmpi, weft_onednn.
function(weft_optional_target name target)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${name}_INCLUDE})
  target_link_libraries(${target} INTERFACE ${${name}_LIBRARIES} ${ARGN})
endfunction()

# OpenSSL: ranks of several hosts talk under TLS, with the secret of their world as key.
function(weft_use_openssl target)
  set(archives)
  if(WEFT_PYTHON)  # that library loads where there is no OpenSSL
    set(archives ARCHIVES)
  endif()
  weft_optional(OPENSSL ${archives} HEADER openssl/ssl.h LIBRARIES ssl crypto CALLS "SSL_CTX_set_psk_find_session_callback(nullptr, nullptr)"
                ABSENT "ranks cannot be on several hosts (Debian: libssl-dev)")
  if(WEFT_HAVE_OPENSSL)
    target_compile_definitions(${target} PRIVATE WEFT_TLS=1)
    target_include_directories(${target} SYSTEM PRIVATE ${OPENSSL_INCLUDE})
    target_link_libraries(${target} PRIVATE ${OPENSSL_LIBRARIES})
  endif()
  set(WEFT_HAVE_OPENSSL ${WEFT_HAVE_OPENSSL} PARENT_SCOPE)
endfunction()

# UCX carries what ranks of several hosts send each other over RDMA devices, and on trusted networks.
function(weft_use_ucx target)
  weft_optional(UCX HEADER ucp/api/ucp.h LIBRARIES ucp ucs CALLS "unsigned a, b, c; ucp_get_version(&a, &b, &c)"
                ABSENT "no RDMA between hosts (Debian: libucx-dev)")
  if(WEFT_HAVE_UCX)
    target_compile_definitions(${target} PRIVATE WEFT_UCX=1)
    target_include_directories(${target} SYSTEM PRIVATE ${UCX_INCLUDE})
    target_link_libraries(${target} PRIVATE ${UCX_LIBRARIES})
  endif()
  set(WEFT_HAVE_UCX ${WEFT_HAVE_UCX} PARENT_SCOPE)
endfunction()

# PMIx tells ranks that mpirun started on several hosts of each other; without it those of one host find each other, and
# `weft run --rendezvous` joins hosts.
function(weft_use_pmix target)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(PMIX_PC QUIET pmix)
  endif()
  weft_optional(PMIX HEADER pmix.h LIBRARIES pmix HINTS ${PMIX_PC_INCLUDE_DIRS} ${PMIX_PC_LIBRARY_DIRS}
                CALLS "PMIx_Initialized()" ABSENT "ranks of mpirun must share one host (Debian: libpmix-dev, pkg-config)")
  if(WEFT_HAVE_PMIX)
    target_compile_definitions(${target} PRIVATE WEFT_PMIX=1)
    target_include_directories(${target} SYSTEM PRIVATE ${PMIX_INCLUDE} ${PMIX_PC_INCLUDE_DIRS})
    target_link_libraries(${target} PRIVATE ${PMIX_LIBRARIES})
  endif()
  set(WEFT_HAVE_PMIX ${WEFT_HAVE_PMIX} PARENT_SCOPE)
endfunction()

# httplib speaks HTTP for `weft serve`. What its structs have depends on how it was built, which pkg-config tells.
function(weft_find_httplib)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(HTTPLIB_PC QUIET cpp-httplib)
  endif()
  set(defines ${HTTPLIB_PC_CFLAGS_OTHER})
  list(FILTER defines INCLUDE REGEX "^-D")
  list(TRANSFORM defines REPLACE "^-D" "")
  if(HTTPLIB_PC_FOUND)
    weft_optional(HTTPLIB HEADER httplib.h LIBRARIES cpp-httplib HINTS ${HTTPLIB_PC_INCLUDE_DIRS} ${HTTPLIB_PC_LIBRARY_DIRS}
                  LINK Threads::Threads DEFINES ${defines} CALLS "httplib::Server server" ABSENT "no weft serve (Debian: libcpp-httplib-dev, pkg-config)")
  else()
    message(STATUS "HTTPLIB not found: no weft serve (Debian: libcpp-httplib-dev, pkg-config)")
  endif()
  if(WEFT_HAVE_HTTPLIB)  # for the clients of tests
    weft_optional_target(HTTPLIB weft_httplib)
    target_compile_definitions(weft_httplib INTERFACE ${defines})
  endif()
  foreach(what WEFT_HAVE_HTTPLIB HTTPLIB_LIBRARIES)
    set(${what} ${${what}} PARENT_SCOPE)
  endforeach()
  set(HTTPLIB_DEFINES ${defines} PARENT_SCOPE)
endfunction()

function(weft_use_httplib target)
  if(WEFT_HAVE_HTTPLIB)
    target_compile_definitions(${target} PRIVATE ${HTTPLIB_DEFINES})
    target_include_directories(${target} SYSTEM PRIVATE ${HTTPLIB_INCLUDE})
    target_link_libraries(${target} PRIVATE ${HTTPLIB_LIBRARIES})
  endif()
endfunction()

# CUDA runs plans on a GPU. Kernels are compiled by nvcc for sm_90a, which needs no GPU; CMake's own language CUDA would
# try the compiler at every first configuration, and `make run` waits for none of this.
function(weft_find_cuda)
  find_program(WEFT_NVCC nvcc HINTS /usr/local/cuda/bin)
  set(WEFT_HAVE_CUDA OFF)
  if(NOT WEFT_CUDA)
    message(STATUS "CUDA left out: plans run on CPUs only (WEFT_CUDA is OFF)")
  elseif(NOT WEFT_NVCC)
    message(STATUS "CUDA not found: plans run on CPUs only (nvcc 13 and its libraries; set WEFT_NVCC)")
  elseif(NOT WEFT_SANITIZE)
    weft_optional(CUDA ARCHIVES HEADER cuda_runtime.h LIBRARIES cudart_static HINTS /usr/local/cuda/include /usr/local/cuda/lib64
                  LINK Threads::Threads rt CALLS "cudaDeviceSynchronize()" ABSENT "plans run on CPUs only (CUDA toolkit 13)")
  endif()
  if(WEFT_HAVE_CUDA)
    add_library(weft_cudart INTERFACE)
    target_include_directories(weft_cudart SYSTEM INTERFACE $<BUILD_INTERFACE:${CUDA_INCLUDE}>)
    target_link_libraries(weft_cudart INTERFACE ${CUDA_LIBRARIES} Threads::Threads rt ${CMAKE_DL_LIBS})
  endif()
  set(WEFT_HAVE_CUDA ${WEFT_HAVE_CUDA} PARENT_SCOPE)
endfunction()

# weft_nvcc(target source...): compiles kernels and adds the objects to a target.
function(weft_nvcc target)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.cu.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d VERBATIM
      COMMAND ${WEFT_NVCC} -std=c++20 -O3 -DNDEBUG -gencode=arch=compute_90a,code=sm_90a -Xcompiler -fPIC,-Wall -I ${CMAKE_SOURCE_DIR}
              -MD -MF ${object}.d -c ${source} -o ${object} COMMENT "Building CUDA object ${target}_${name}.cu.o")
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endforeach()
endfunction()

# What Weft is measured against and works beside: weft_cblas (a BLAS with cblas.h), weft_onednn and weft_openmpi. CMake's own
# FindMPI stops the whole configuration where mpirun is installed without its headers, so Open MPI is looked for as the
# others; its wrapper only hints where. Debian's CMake package of oneDNN asks for OpenCL, which we do not need.
function(weft_find_baselines)
  weft_optional(CBLAS HEADER cblas.h SUFFIXES openblas openblas-pthread LIBRARIES openblas
                CALLS "float x = 0; cblas_sdot(1, &x, 1, &x, 1)"
                ABSENT "no examples with a BLAS, no bench/window_gain, and benchmarks show no OpenBLAS (Debian: libopenblas-dev)")
  find_package(OpenMP QUIET COMPONENTS CXX)
  set(openmp)
  if(TARGET OpenMP::OpenMP_CXX)
    set(openmp OpenMP::OpenMP_CXX)
  else()
    message(STATUS "OpenMP not found: oneDNN's threads cannot be held to a rank's, so benchmarks leave it out")
  endif()
  weft_optional(ONEDNN HEADER oneapi/dnnl/dnnl.hpp LIBRARIES dnnl LINK ${openmp} CALLS "dnnl_version()"
                ABSENT "benchmarks show Weft's own gemm alone (Debian: libdnnl-dev)")
  execute_process(COMMAND mpicxx --showme:incdirs OUTPUT_VARIABLE include RESULT_VARIABLE bad_include ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND mpicxx --showme:libdirs OUTPUT_VARIABLE lib RESULT_VARIABLE bad_lib ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(hints)
  if(bad_include EQUAL 0 AND bad_lib EQUAL 0)
    separate_arguments(hints UNIX_COMMAND "${include} ${lib}")
  endif()
  weft_optional(MPI HEADER mpi.h SUFFIXES mpi LIBRARIES mpi HINTS ${hints} DEFINES OMPI_SKIP_MPICXX=1 CALLS "MPI_Finalize()"
                ABSENT "benchmarks have no mpi_us, and the examples with MPI are not built (Debian: libopenmpi-dev)")
  if(WEFT_HAVE_CBLAS)
    weft_optional_target(CBLAS weft_cblas)
  endif()
  if(WEFT_HAVE_ONEDNN)
    weft_optional_target(ONEDNN weft_onednn)
  endif()
  if(WEFT_HAVE_MPI)
    weft_optional_target(MPI weft_openmpi)
    target_compile_definitions(weft_openmpi INTERFACE OMPI_SKIP_MPICXX=1)
  endif()
  find_program(WEFT_MPIRUN NAMES mpirun mpiexec)
  foreach(name CBLAS ONEDNN MPI)
    set(WEFT_HAVE_${name} ${WEFT_HAVE_${name}} PARENT_SCOPE)
  endforeach()
endfunction()
