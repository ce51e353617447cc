#include "services/executor/adapters/linux/image_store.hpp"

#include <fcntl.h>

#include <boost/json.hpp>

#include <charconv>
#include <optional>
#include <sstream>

#include "libs/base/random.hpp"
#include "libs/linux/files.hpp"
#include "libs/linux/subprocess.hpp"

namespace nodus::executor {
namespace fs = std::filesystem;
namespace json = boost::json;

static constexpr const char* kPartial = ".partial-";

static std::unexpected<Error> bad_image(std::string message) {
  return fail(Code::kInvalid, "StartFailed", std::move(message));
}

static std::optional<uint32_t> number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The n-th field of the line of `name` in a file like /etc/passwd.
static std::optional<uint32_t> look_up(const std::string& file, const std::string& name, int field) {
  std::istringstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + ":")) continue;
    std::istringstream fields(line);
    std::string value;
    for (int i = 0; i <= field; ++i)
      if (!std::getline(fields, value, ':')) return std::nullopt;
    return number(value);
  }
  return std::nullopt;
}

Result<std::pair<uint32_t, uint32_t>> resolve_user(const std::string& user, const std::string& passwd,
                                                   const std::string& group) {
  const size_t colon = user.find(':');
  const std::string name = user.substr(0, colon);
  const std::string group_name = colon == std::string::npos ? "" : user.substr(colon + 1);
  if (name.empty())
    return bad_image("The image names no user. Commands run as the image's user and never as root: set one.");
  auto uid = number(name);
  auto gid = look_up(passwd, name, 3);
  if (!uid) uid = look_up(passwd, name, 2);
  if (!uid) return bad_image("The image's user \"" + name + "\" is not in its /etc/passwd.");
  if (!group_name.empty()) {
    gid = number(group_name);
    if (!gid) gid = look_up(group, group_name, 2);
    if (!gid) return bad_image("The image's group \"" + group_name + "\" is not in its /etc/group.");
  }
  if (*uid == 0)
    return bad_image("The image's user is root. Commands never run as root: set a user other than root.");
  constexpr uint32_t kHighest = 0x7fffffff;
  if (*uid > kHighest || gid.value_or(0) > kHighest) return bad_image("The image's user id is too large.");
  return std::pair(*uid, gid && *gid != 0 ? *gid : *uid);  // the group root opens doors, too
}

static bool is_hex(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

static Result<std::string> hex_of(const std::string& digest) {
  if (!digest.starts_with("sha256:") || !is_hex(digest.substr(7)))
    return bad_image("\"" + digest + "\" is not an image digest.");
  return digest.substr(7);
}

static Result<json::value> read_blob(const fs::path& layout, const std::string& digest) {
  auto hex = hex_of(digest);
  if (!hex) return std::unexpected(hex.error());
  auto bytes = linux::read_file(layout / "blobs" / "sha256" / *hex);
  if (!bytes) return bad_image("The image " + digest + " is not in the catalog any more.");
  if (sha256_hex(*bytes) != *hex) return bad_image("A blob of the image is damaged: " + digest + ".");
  std::error_code ignored;
  boost::system::error_code error;
  auto value = json::parse(*bytes, error);
  if (error || !value.is_object()) return bad_image("A blob of the image is not JSON: " + digest + ".");
  return value;
}

static std::string text_at(const json::value& object, std::initializer_list<std::string_view> path) {
  const json::value* at = &object;
  for (const auto& name : path) {
    if (!at->is_object()) return "";
    at = at->as_object().if_contains(name);
    if (at == nullptr) return "";
  }
  return at->is_string() ? json::value_to<std::string>(*at) : "";
}

ImageStore::ImageStore(fs::path catalog, fs::path unpacked)
    : catalog_(std::move(catalog)), unpacked_(std::move(unpacked)) {}

// Written last by unpack, so that what can be read is whole.
static std::optional<Image> read_unpacked(const fs::path& directory) {
  auto bytes = linux::read_file(directory / "image.json");
  if (!bytes) return std::nullopt;
  boost::system::error_code error;
  auto value = json::parse(*bytes, error);
  if (error) return std::nullopt;
  Image image;
  image.rootfs = directory / "rootfs";
  image.uid = value.at("uid").to_number<uint32_t>();
  image.gid = value.at("gid").to_number<uint32_t>();
  image.env = json::value_to<std::vector<std::string>>(value.at("env"));
  image.working_dir = text_at(value, {"workingDir"});
  return image;
}

Result<Image> ImageStore::ensure(const std::string& name, const std::string& digest) {
  auto hex = hex_of(digest);
  if (!hex) return std::unexpected(hex.error());
  if (auto image = read_unpacked(unpacked_ / *hex)) return *image;
  const std::string short_name = name.substr(name.rfind('/') + 1);
  if (short_name.empty() || short_name.starts_with('.') ||
      short_name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") != std::string::npos)
    return bad_image("There is no image \"" + name + "\" in the catalog.");
  const std::lock_guard lock(turn_of(*hex));
  if (auto image = read_unpacked(unpacked_ / *hex)) return *image;
  try {
    // A name of its own: the umoci of a nodusd that was killed may still be writing to another.
    const auto partial = unpacked_ / (*hex + kPartial + random_uuid().substr(0, 8));
    auto image = unpack(catalog_ / short_name, *hex, partial);
    if (!image) (void)linux::remove_tree(partial);
    return image;
  } catch (const std::exception& fault) {  // of Boost.JSON: a member of another type than it should have
    return bad_image("The image " + name + " is not a valid OCI image: " + fault.what());
  }
}

std::mutex& ImageStore::turn_of(const std::string& hex) {
  const std::lock_guard lock(mutex_);
  return unpacking_[hex];
}

void ImageStore::remove_partial() {
  std::error_code error;
  for (fs::directory_iterator it(unpacked_, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().native().find(kPartial) != std::string::npos)
      (void)linux::remove_tree(it->path());
}

// umoci finds manifests by tag only: a layout of its own, with this manifest and links to the blobs, whatever
// the tag has become since.
static Result<void> make_view(const fs::path& layout, const std::string& hex, const fs::path& view) {
  std::error_code error;
  if (auto made = linux::make_directories(view); !made) return made;
  const auto size = fs::file_size(layout / "blobs" / "sha256" / hex, error);
  if (error) return bad_image("The image sha256:" + hex + " is not in the catalog any more.");
  fs::create_symlink(fs::absolute(layout) / "blobs", view / "blobs", error);
  const json::object manifest{{"mediaType", "application/vnd.oci.image.manifest.v1+json"},
                              {"digest", "sha256:" + hex},
                              {"size", size},
                              {"annotations", {{"org.opencontainers.image.ref.name", "wanted"}}}};
  const json::object index{{"schemaVersion", 2}, {"manifests", json::array{manifest}}};
  if (auto put = linux::write_file(view / "index.json", json::serialize(index)); !put) return put;
  return linux::write_file(view / "oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
}

static Result<void> check_rootfs(const fs::path& rootfs, const std::string& working_dir) {
  for (const char* name : {"dev", "proc", "sys"}) {
    const auto path = rootfs / name;
    std::error_code error;
    if (fs::symlink_status(path, error).type() != fs::file_type::not_found && !linux::is_real_directory(path))
      return bad_image("The image's /" + std::string(name) + " is not a directory.");
  }
  for (const auto& part : fs::path(working_dir).lexically_normal())
    if (part != "/") {
      if (part == "proc" || part == "sys" || part == "dev")
        return bad_image("The image's working directory lies in /" + part.native() + ".");
      break;
    }
  return {};
}

Result<Image> ImageStore::unpack(const fs::path& layout, const std::string& hex, const fs::path& partial) {
  auto manifest = read_blob(layout, "sha256:" + hex);
  if (!manifest) return std::unexpected(manifest.error());
  auto config = read_blob(layout, text_at(*manifest, {"config", "digest"}));
  if (!config) return std::unexpected(config.error());
  const auto view = partial / "layout";
  if (auto made = make_view(layout, hex, view); !made) return std::unexpected(made.error());
  auto unpacked = linux::run_checked({.argv = {"umoci", "raw", "unpack", "--image", view.native() + ":wanted",
                                               (partial / "rootfs").native()},
                                      .deadline = Millis(600'000),
                                      .cancelled = [this] { return stopping_.load(); }});
  if (!unpacked) return std::unexpected(unpacked.error());
  if (auto removed = linux::remove_tree(view); !removed) return std::unexpected(removed.error());

  Image image;
  image.rootfs = unpacked_ / hex / "rootfs";
  image.working_dir = text_at(*config, {"config", "WorkingDir"});
  if (auto sound = check_rootfs(partial / "rootfs", image.working_dir); !sound)
    return std::unexpected(sound.error());
  const linux::UniqueFd root(
      ::open((partial / "rootfs").c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const auto passwd = linux::read_file_in_root(root.get(), "/etc/passwd").value_or("");
  const auto group = linux::read_file_in_root(root.get(), "/etc/group").value_or("");
  auto user = resolve_user(text_at(*config, {"config", "User"}), passwd, group);
  if (!user) return std::unexpected(user.error());
  std::tie(image.uid, image.gid) = *user;
  if (const auto* env = config->at("config").as_object().if_contains("Env");
      env != nullptr && env->is_array())
    image.env = json::value_to<std::vector<std::string>>(*env);
  const json::object kept{{"uid", image.uid},
                          {"gid", image.gid},
                          {"env", json::value_from(image.env)},
                          {"workingDir", image.working_dir}};
  if (auto put = linux::write_file_durably(partial / "image.json", json::serialize(kept)); !put)
    return std::unexpected(put.error());
  std::error_code error;
  fs::rename(partial, unpacked_ / hex, error);
  if (error)
    return fail(Code::kInternal, "SystemCallFailed", "rename " + partial.native() + ": " + error.message());
  return image;
}

std::vector<std::pair<std::string, std::string>> ImageStore::catalog() const {
  std::vector<std::pair<std::string, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(catalog_, error), end; !error && it != end; it.increment(error)) {
    auto bytes = linux::read_file(it->path() / "index.json");
    if (!bytes) continue;
    boost::system::error_code fault;
    const auto index = json::parse(*bytes, fault);
    if (fault || !index.is_object() || !index.as_object().contains("manifests")) continue;
    for (const auto& manifest : index.at("manifests").as_array())
      if (text_at(manifest, {"annotations", "org.opencontainers.image.ref.name"}) == "latest")
        found.emplace_back("nodus/" + it->path().filename().native(), text_at(manifest, {"digest"}));
  }
  return found;
}

}  // namespace nodus::executor
