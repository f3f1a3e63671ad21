t9_fuzzer(program_fuzzer SOURCES program_fuzzer.cpp DEPS t9_graph)
