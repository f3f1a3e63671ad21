# Compile flags and the functions that declare tempo9's targets: t9_library, t9_test, t9_fuzzer.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Paths are taken relative to the checkout, so that one checkout's objects serve the next.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()

# The numeric contract (docs/decisions): a fused multiply-add only where it is written.
add_compile_options(-ffp-contract=off -fno-math-errno)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
# Designated initialisers leave members at their defaults on purpose.
add_compile_options(-Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # At -O3 g++ 12 raises false alarms about standard containers of bytes and characters (its bugs 105329, 105651).
  add_compile_options(-Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  # libstdc++ 12 offers std::expected only to compilers that claim the concepts of C++20's last revision; clang has
  # what <expected> uses, and states the older number.
  add_compile_options(-U__cpp_concepts -D__cpp_concepts=202002L -Wno-builtin-macro-redefined)
endif()
if(TEMPO9_WERROR)
  add_compile_options(-Werror)
endif()
if(TEMPO9_SANITIZE)
  # Checks stay on, so no NDEBUG. Lines are enough for a report; all of -g doubles the time to compile, and so does -O1
  # in place of -Og. The optimiser guesses wrongly about what is initialised between the sanitizers' checks.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-Og -g1")
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_compile_options(-fsanitize=${TEMPO9_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TEMPO9_SANITIZE})
endif()
if(TEMPO9_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
# Headers, and what they make every source instantiate, are most of the compiler's work: several sources go through it
# as one, except where APART says that they can't. All warnings stay but one about anonymous types outside of the main
# file, where all sources are here; builds without this (debug, arm64, fuzz) have it. Not for clang, of the fuzzers,
# which takes names of one source for shadows in another.
if(TEMPO9_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
endif()

# t9_library(NAME SOURCES … DEPS … [APART …]): the library target of one folder of src/. DEPS are the folders that it may
# include, as in docs/architecture.md, and outside libraries. APART: those of the sources that use the same names within
# their own namespaces as others.
function(t9_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;APART" ${ARGN})
  set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(ARG_SOURCES)
    add_library(t9_${NAME} STATIC ${ARG_SOURCES})
    target_include_directories(t9_${NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(t9_${NAME} PUBLIC ${ARG_DEPS})
    if(CMAKE_UNITY_BUILD)
      target_compile_options(t9_${NAME} PRIVATE -Wno-subobject-linkage)
    endif()
  else()
    add_library(t9_${NAME} INTERFACE)
    target_include_directories(t9_${NAME} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(t9_${NAME} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

# t9_code_digest(OUT FOLDER FOLDERS …): a source file for the target of src/FOLDER that defines FOLDER/code_digest.h: a
# digest of all sources of src/ in FOLDERS. Its path goes to OUT.
function(t9_code_digest OUT FOLDER)
  set(patterns ${ARGN})
  list(TRANSFORM patterns PREPEND ${CMAKE_SOURCE_DIR}/src/)
  list(TRANSFORM patterns APPEND /*.*)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  list(SORT sources)
  list(JOIN sources "|" argument)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/code_digest.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFOLDER=${FOLDER} "-DSOURCES=${argument}"
            -P ${CMAKE_SOURCE_DIR}/cmake/CodeDigest.cmake
    DEPENDS ${sources} ${CMAKE_SOURCE_DIR}/cmake/CodeDigest.cmake
    COMMENT "Digest of the code behind ${FOLDER}"
    VERBATIM)
  # It changes with every source.
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(${OUT} ${output} PARENT_SCOPE)
endfunction()

# t9_test(NAME SOURCES … DEPS … [APART …] [LABELS …] [OWN_CACHE]): one GoogleTest executable, each of its tests known to
# ctest. APART as above. OWN_CACHE: for those that run the server or the instruments, which write into the user's cache
# folder.
function(t9_test NAME)
  cmake_parse_arguments(ARG "OWN_CACHE" "" "SOURCES;DEPS;APART;LABELS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} t9_test_data GTest::gtest GTest::gtest_main)
  # Tests' own code is compiled fast: half the time and a third of it; what is tested keeps its own flags.
  target_compile_options(${NAME} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)
  set(properties "")  # an empty value would be lost on the way, and the next name be taken for it
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  if(ARG_OWN_CACHE)
    list(APPEND properties ENVIRONMENT "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/test-cache")
  endif()
  if(TEMPO9_SANITIZE)
    # Real models would take hours: their tests are built when they are asked for.
    if("model" IN_LIST ARG_LABELS)
      set_target_properties(${NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    t9_test_in_shards(${NAME} ${properties})
  else()
    include(GoogleTest)
    gtest_discover_tests(${NAME} DISCOVERY_MODE PRE_TEST PROPERTIES ${properties})
  endif()
endfunction()

# With sanitizers a process takes a fifth of a second to start and to look for leaks, more than most tests: each runs
# many of them.
function(t9_test_in_shards NAME)
  set(n_shards 4)
  math(EXPR last "${n_shards} - 1")
  foreach(shard RANGE ${last})
    set(test ${NAME}_${shard})
    add_test(NAME ${test} COMMAND ${NAME})
    if(ARGN)
      set_tests_properties(${test} PROPERTIES ${ARGN})
    endif()
    set_property(TEST ${test} PROPERTY TIMEOUT 900)
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${n_shards} GTEST_SHARD_INDEX=${shard})
  endforeach()
endfunction()

# t9_fuzzer(NAME SOURCES … DEPS …): one libFuzzer target; `fuzzers` builds all of them.
function(t9_fuzzer NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS})
  target_link_options(${NAME} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${NAME})
endfunction()
