# Writes OUTPUT, the definition of FOLDER/code_digest.h, from the contents of SOURCES:
#   cmake -DOUTPUT=FILE -DFOLDER=models -DSOURCES=A|B|… -P CodeDigest.cmake
string(REPLACE "|" ";" SOURCES "${SOURCES}")
set(ALL "")
foreach(SOURCE IN LISTS SOURCES)
  file(SHA256 "${SOURCE}" DIGEST)
  get_filename_component(NAME "${SOURCE}" NAME)
  string(APPEND ALL "${NAME} ${DIGEST}\n")
endforeach()
string(SHA256 DIGEST "${ALL}")
file(WRITE "${OUTPUT}" "#include \"${FOLDER}/code_digest.h\"

namespace tempo9::${FOLDER} {

const std::string_view kCodeDigest = \"${DIGEST}\";

}  // namespace tempo9::${FOLDER}
")
