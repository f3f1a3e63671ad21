t9_fuzzer(image_fuzzer SOURCES image_fuzzer.cpp DEPS t9_vision_decode)
