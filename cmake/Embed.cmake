# cmake -DINPUT=… -DOUTPUT=… -DNAME=… -P Embed.cmake: a file's bytes as C++, `const std::string_view NAME` of namespace
# tempo9::server.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" lines "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," lines "${lines}")
file(WRITE ${OUTPUT}
     "#include <string_view>\n\nnamespace tempo9::server {\n\nstatic constexpr char kBytes[] = {\n${lines}};\n"
     "extern const std::string_view ${NAME};\nconst std::string_view ${NAME}(kBytes, sizeof kBytes);\n\n}\n")
