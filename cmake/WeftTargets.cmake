# One static library per folder (weft_<folder>) and one test program per folder (<folder>_test) from the
# *_test.cc files beside the sources. A new file needs no change here.

# In the fast build (WEFT_UNITY, the default) the sources of one folder are one translation unit: headers are read once
# per folder, and the whole program builds in a third of the time. So a name in an anonymous namespace stands once per
# folder. With WHOLE the folders below it are of the same unit. Files that include the same text twice, or need flags of
# their own, stay apart (SKIP_UNITY_BUILD_INCLUSION). Those that APART matches are a unit of their own: where they come and
# go with an optional library, the rest need not be compiled again.
function(weft_unity target)
  cmake_parse_arguments(ARG "WHOLE" "APART" "" ${ARGN})
  if(NOT WEFT_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_filename_component(path ${source} ABSOLUTE)
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${path})
    get_filename_component(folder ${path} DIRECTORY)
    if(ARG_WHOLE)
      string(REGEX REPLACE "^(weft/[^/]+)/.*" "\\1" folder ${folder})
    endif()
    string(MAKE_C_IDENTIFIER ${folder} group)
    if(ARG_APART AND path MATCHES "${ARG_APART}")
      string(APPEND group _apart)
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# weft_folder(name LINK ... LABELS ... EXCLUDE regex WHOLE APART regex): sources that EXCLUDE matches are left out; WHOLE
# makes one unit of the library, for folders whose parts share their headers, but for those that APART matches.
function(weft_folder name)
  cmake_parse_arguments(ARG "WHOLE" "EXCLUDE;LOCK;APART" "LINK;LABELS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/weft/${name}/*.cc)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(weft_${name} STATIC ${sources})
  set_target_properties(weft_${name} PROPERTIES EXPORT_NAME ${name})
  if(ARG_WHOLE)
    weft_unity(weft_${name} WHOLE APART "${ARG_APART}")
  else()
    weft_unity(weft_${name})
  endif()
  target_include_directories(weft_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(weft_${name} PUBLIC ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARIES weft_${name})
  if(WEFT_TESTS AND tests)
    weft_test(${name}_test SOURCES ${tests} LINK weft_${name} LABELS ${ARG_LABELS} LOCK ${ARG_LOCK})
  endif()
endfunction()

# weft_page(target path): the text of path.html becomes a string of the library, as path.cc.in says.
function(weft_page target path)
  get_filename_component(name ${path} NAME)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path}.html)
  file(READ ${path}.html WEFT_PAGE)
  configure_file(${path}.cc.in ${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.cc @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.cc)
endfunction()

# weft_test(name SOURCES ... LINK ... LABELS ...): a GoogleTest program, each of its tests known to ctest.
# LABELS: `threads` for ranks that are threads (run under TSan), `slow` for what no sanitizer need repeat, `heavy` for what
# they repeat in `make test-long` only: thousands of plans, and all that stands above weft/world. The others are `light`.
# Two words are one label (`heavy-threads`), since ctest -L takes a pattern. The targets light_tests, heavy_tests and
# threads_tests build all that are labelled so. LOCK: of tests that name the same one, one runs at a time. FILTER: the tests
# that ctest knows, as for --gtest_filter.
function(weft_test name)
  cmake_parse_arguments(ARG "NO_MAIN" "TIMEOUT;LOCK;FILTER" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  weft_unity(${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest)
  target_compile_options(${name} PRIVATE ${WEFT_COLD_OPTIONS})
  if(NOT ARG_NO_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  if(NOT ARG_LABELS MATCHES "heavy|slow")
    string(JOIN - ARG_LABELS light ${ARG_LABELS})
  endif()
  foreach(label light heavy threads)
    if(ARG_LABELS MATCHES ${label})
      if(NOT TARGET ${label}_tests)
        add_custom_target(${label}_tests)
      endif()
      add_dependencies(${label}_tests ${name})
    endif()
  endforeach()
  # WEFT_CLUSTER: not what a user has calibrated this machine to.
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_FILTER "${ARG_FILTER}" PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT WEFT_CLUSTER=default
                       LABELS ${ARG_LABELS} RESOURCE_LOCK "${ARG_LOCK}")
endfunction()
