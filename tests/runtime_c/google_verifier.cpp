// Google's flatbuffers verifier for our schema, from the header that flatc generates.
#include "edgert_generated.h"

extern "C" int google_accepts(const unsigned char *data, size_t bytes) {
  flatbuffers::Verifier verifier(data, bytes);
  return edgert::VerifyBundleBuffer(verifier);
}
