t9_fuzzer(schema_fuzzer SOURCES schema_fuzzer.cpp DEPS t9_grammar)
