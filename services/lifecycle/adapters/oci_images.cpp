#include "services/lifecycle/adapters/oci_images.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace nodus::lifecycle {

namespace json = boost::json;

namespace {

constexpr std::string_view kCatalog = "nodus/";

std::unexpected<Error> not_found(const std::string& reference) {
  Error error{
      Code::kInvalid, "Invalid", "There is no image \"" + reference + "\" in the catalog.", {}, {}, {}};
  error.causes.push_back({"spec.image", "ImageNotFound", "Use a catalog image, such as nodus/agent-tools."});
  return std::unexpected(std::move(error));
}

bool plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 && name.front() != '-' && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::string tag_of(const json::value& manifest) {
  const auto* annotations = manifest.as_object().if_contains("annotations");
  if (!annotations) return "latest";
  const auto* name = annotations->as_object().if_contains("org.opencontainers.image.ref.name");
  return name ? std::string(name->as_string()) : "latest";
}

}  // namespace

Result<std::string> OciImages::resolve(const std::string& reference) {
  if (!reference.starts_with(kCatalog)) return not_found(reference);
  const std::string rest = reference.substr(kCatalog.size());
  const size_t colon = rest.find(':');
  const std::string name = rest.substr(0, colon);
  const std::string tag = colon == std::string::npos ? "latest" : rest.substr(colon + 1);
  if (!plain_name(name)) return not_found(reference);
  std::ifstream file(directory_ / name / "index.json");
  if (!file) return not_found(reference);
  std::stringstream text;
  text << file.rdbuf();
  try {
    const auto index = json::parse(text.str());
    for (const auto& manifest : index.as_object().at("manifests").as_array())
      if (tag_of(manifest) == tag) return std::string(manifest.as_object().at("digest").as_string());
  } catch (const std::exception&) {
    return fail(Code::kInternal, "ImageCatalogBroken",
                "The index of image " + reference + " cannot be read.");
  }
  return not_found(reference);
}

}  // namespace nodus::lifecycle
