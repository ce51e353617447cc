// Manifests: every fault is a Result, and what is accepted equals itself when it is rendered.
#include "services/lifecycle/adapters/manifest.hpp"
#include "tests/fuzz/expect.hpp"

using namespace nodus;
using namespace nodus::lifecycle;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const ProjectId project("dev");
  if (const auto manifest = parse_manifest(body, project)) {
    const auto spec = render_spec(manifest->spec, manifest->run);
    const boost::json::object again{{"apiVersion", "nodus.dev/v1"},
                                    {"kind", "Sandbox"},
                                    {"metadata", {{"name", manifest->name}}},
                                    {"spec", spec}};
    const auto second = parse_manifest(boost::json::serialize(again), project);
    EXPECT_THAT_ALWAYS(second);
    if (!spec.contains("env"))  // values are not shown
      EXPECT_THAT_ALWAYS(differences(manifest->spec, second->spec).empty());
  }
  return 0;
}
