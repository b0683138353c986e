# The layers: one folder of src/ is one CMake target, and may include only the folders named here.
# The `layers` test (tools/check_layers.py) holds every #include to this same table.
set(EBB_LAYERS base device format tokenizer memory kernels weights model engine cli)

set(EBB_LAYER_base      "")
set(EBB_LAYER_device    base)
set(EBB_LAYER_format    base)
set(EBB_LAYER_tokenizer base)
set(EBB_LAYER_memory    device base)
set(EBB_LAYER_kernels   device base)
set(EBB_LAYER_weights   format memory device base)
set(EBB_LAYER_model     weights memory kernels device base)
set(EBB_LAYER_engine    model weights tokenizer memory device base)
set(EBB_LAYER_cli       engine base)

# ebb_layer(<folder> SOURCES a.cpp ... [LINK libraries ...])
# Makes the static library ebb_<folder> from the sources of src/<folder> and links exactly what the table allows.
function(ebb_layer folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(ebb_${folder} STATIC ${ARG_SOURCES})
  target_include_directories(ebb_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(ebb_${folder} PRIVATE ebb_warnings)
  foreach(lower IN LISTS EBB_LAYER_${folder})
    target_link_libraries(ebb_${folder} PUBLIC ebb_${lower})
  endforeach()
  target_link_libraries(ebb_${folder} PUBLIC ${ARG_LINK})
endfunction()

# ebb_tests(<folder> SOURCES a_test.cpp ... [LINK libraries ...] [LABELS ...] [GPU])
# One test program a folder of tests/, each GoogleTest case a CTest case. With GPU, cases with "cuda" in their name are
# labelled gpu instead; without a card they skip themselves.
function(ebb_tests folder)
  cmake_parse_arguments(ARG "GPU" "" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(ebb_${folder}_tests ${ARG_SOURCES})
  target_include_directories(ebb_${folder}_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(ebb_${folder}_tests PRIVATE EBB_VECTORS_DIR="${PROJECT_SOURCE_DIR}/tests/vectors")
  target_link_libraries(ebb_${folder}_tests PRIVATE ebb_warnings ${ARG_LINK} GTest::gtest_main)
  if(EBB_SANITIZE)
    target_compile_options(ebb_${folder}_tests PRIVATE -O0)  # compiles in half the time; what is tested keeps its -O1
  endif()
  set(on_a_card "*cuda*:*Cuda*")
  set(elsewhere "*")
  if(ARG_GPU)
    set(elsewhere "-${on_a_card}")
    gtest_discover_tests(ebb_${folder}_tests
      DISCOVERY_MODE PRE_TEST
      TEST_FILTER "${on_a_card}"
      PROPERTIES LABELS gpu TIMEOUT 600)
  endif()
  gtest_discover_tests(ebb_${folder}_tests
    DISCOVERY_MODE PRE_TEST
    TEST_FILTER "${elsewhere}"
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()

# ebb_bench(<name> SOURCES a_bench.cpp ... [LINK libraries ...])
# One Google Benchmark program; its CTest case only keeps it alive and asserts no time.
function(ebb_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name}_bench ${ARG_SOURCES})
  target_include_directories(${name}_bench PRIVATE ${PROJECT_SOURCE_DIR}/bench)
  target_link_libraries(${name}_bench PRIVATE ebb_warnings ${ARG_LINK} benchmark::benchmark_main)
  if(EBB_TESTS)
    add_test(NAME bench.${name} COMMAND ${name}_bench --benchmark_min_time=0.01)
    set_tests_properties(bench.${name} PROPERTIES LABELS bench TIMEOUT 300 RUN_SERIAL ON)
  endif()
endfunction()

# ebb_fuzz(<name> SOURCES a_fuzz.cpp ... [LINK libraries ...])
# One libFuzzer program; its CTest case grows a corpus of its own in the build folder from the seeds in the repository.
set(EBB_FUZZ_SECONDS 20 CACHE STRING "How long ctest runs each fuzz target")
function(ebb_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name}_fuzz ${ARG_SOURCES})
  add_dependencies(ebb_fuzzers ${name}_fuzz)
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name}_fuzz PRIVATE ebb_warnings ${ARG_LINK})
  set(found ${PROJECT_BINARY_DIR}/fuzz/${name})
  file(MAKE_DIRECTORY ${found}/corpus)
  add_test(NAME fuzz.${name}
    COMMAND ${name}_fuzz -max_total_time=${EBB_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
            -artifact_prefix=${found}/ ${found}/corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()
