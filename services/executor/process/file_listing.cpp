#include <fmt/format.h>

#include "libs/base/random.hpp"
#include "services/executor/process/file_routes.hpp"

namespace nodus::executor {
namespace json = boost::json;
using boost::asio::awaitable;
namespace {
std::string_view type_name(helper::FileType type) {
  switch (type) {
    case helper::FileType::kFile:
      return "file";
    case helper::FileType::kDirectory:
      return "directory";
    case helper::FileType::kSymlink:
      return "symlink";
    case helper::FileType::kFifo:
      return "fifo";
    case helper::FileType::kSocket:
      return "socket";
    case helper::FileType::kDevice:
      break;
  }
  return "device";
}

void put_entry(json::object& into, const FileInfo& info) {
  into["type"] = type_name(info.type);
  into["size"] = info.size;
  into["mode"] = fmt::format("{:04o}", info.mode);
  into["mtime"] = rfc3339(info.mtime_ns);
  if (info.type == helper::FileType::kSymlink) put_bytes(into, "target", info.target);
  if (info.type == helper::FileType::kFile) into["etag"] = info.etag;
}
}  // namespace

awaitable<void> stat_path(const RouteContext& context, http::Exchange& exchange, FileRequest& file) {
  if (auto opened = co_await open_stream(context, file); !opened)
    co_return co_await refuse(exchange, opened.error());
  const std::string& path = file.query.options.path;
  auto reply = co_await file.stream->stat(path, file.query.follow);
  if (!reply) co_return co_await refuse(exchange, reply.error());
  json::object answer{{"kind", "File"}, {"apiVersion", "nodus.dev/v1"}};
  put_bytes(answer, "path", path);
  put_entry(answer, reply->info);
  co_await exchange.respond(http::json(200, json::serialize(answer)));
}

// One page, written as it comes: a page of long names is megabytes.
awaitable<void> list_directory(const RouteContext& context, http::Exchange& exchange, FileRequest& file) {
  if (auto opened = co_await open_stream(context, file); !opened)
    co_return co_await refuse(exchange, opened.error());
  const std::string& path = file.query.options.path;
  auto reply = co_await file.stream->list(path, file.query.limit, file.query.after);
  if (!reply) co_return co_await refuse(exchange, reply.error());
  http::Headers headers;
  headers.set("Content-Type", "application/json");
  if (!co_await exchange.begin(200, std::move(headers))) co_return;
  json::object shown;
  put_bytes(shown, "path", path);
  std::string text = json::serialize(shown);
  text.pop_back();
  text += R"(,"kind":"FileList","apiVersion":"nodus.dev/v1","items":[)";
  std::string last;
  for (bool first = true;;) {
    auto page = co_await file.stream->next_entries();
    if (!page) co_return;  // the client sees the answer break off
    for (const auto& [name, info] : page->entries) {
      json::object entry;
      put_bytes(entry, "name", name);
      put_entry(entry, info);
      text += (first ? "" : ",") + json::serialize(entry);
      first = false;
      last = name;
    }
    if (page->done) {
      text += "],\"metadata\":{" + (page->more ? "\"continue\":\"" + to_hex(last) + "\"" : "") + "}}\n";
      if (co_await exchange.write(text)) co_await exchange.finish();
      co_return;
    }
    if (closing(context, *file.slot) || !co_await exchange.write(text)) co_return;
    text.clear();
  }
}

}  // namespace nodus::executor
