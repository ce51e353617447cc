// Reading objects: one, many, and (in watch.cpp) what changes. Reading never counts as activity.
#include "services/lifecycle/adapters/render.hpp"
#include "services/lifecycle/adapters/watch.hpp"

namespace nodus::lifecycle {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr int kPage = 500;  // of changes, from the database

// The position of the list, as every page of it says.
json::object list_metadata(const ReadOptions& options, int64_t version, const std::string& next) {
  if (options.token_version > 0) version = options.token_version;
  json::object out{{"resourceVersion", std::to_string(version)}};
  if (!next.empty()) out["continue"] = continue_token(version, next);
  return out;
}

http::Response list_response(const Resource& resource, const ReadOptions& options, json::object metadata,
                             std::vector<json::object> objects, Instant now) {
  if (options.form.as == Form::As::kTable)
    return http::json(200, json::serialize(render_table(resource, objects, std::move(metadata),
                                                        options.form.include, true, now)));
  const bool partial = options.form.as == Form::As::kMetadata;
  json::array items;
  items.reserve(objects.size());
  for (auto& object : objects)
    items.push_back(partial ? metadata_only(object, "PartialObjectMetadata") : std::move(object));
  return http::json(200,
                    json::serialize(json::object{
                        {"apiVersion", partial ? "meta.k8s.io/v1" : resource.api_version},
                        {"kind", partial ? "PartialObjectMetadataList" : std::string(resource.kind) + "List"},
                        {"metadata", std::move(metadata)},
                        {"items", std::move(items)}}));
}

template <class T, class Render>
Result<ObjectPage> page_of(Result<Listed<T>> found, Render render) {
  if (!found) return std::unexpected(std::move(found.error()));
  ObjectPage out{{}, std::move(found->next), found->resource_version};
  out.objects.reserve(found->items.size());
  for (const auto& item : found->items) out.objects.push_back(render(item));
  return out;
}

Result<ObjectPage> sandbox_page(Api& api, const ProjectId& project, const ListQuery& query) {
  return page_of(api.catalog.sandboxes(project, query),
                 [now = api.clock.now()](const SandboxView& view) { return render_sandbox(view, now); });
}
Result<ObjectPage> process_page(Api& api, const ProjectId& project, const ListQuery& query) {
  return page_of(api.catalog.processes(project, query),
                 [](const ProcessView& view) { return render_process(view); });
}
Result<ObjectPage> event_page(Api& api, const ProjectId& project, const ListQuery& query) {
  return page_of(api.catalog.events(project, query), render_event);
}

class CatalogSource final : public ObjectSource {
 public:
  CatalogSource(Api& api, const http::Identity& caller, http::Exchange& exchange, const Resource& resource,
                ReadPage read_page)
      : api_(api),
        project_(caller.project),
        exchange_(exchange),
        resource_(resource.plural),
        read_page_(read_page),
        key_(ChangeFeed::key(project_.str(), resource_)) {}

  awaitable<Result<ObjectPage>> page(const ListQuery& query) override {
    co_return co_await blocking<ObjectPage>(exchange_, [&] { return read_page_(api_, project_, query); });
  }
  awaitable<Result<ChangePage>> standing(int64_t) override { return read(INT64_MAX, 1); }
  awaitable<Result<ChangePage>> changes(int64_t after) override { return read(after, kPage); }
  std::optional<ChangeFeed::Part> heard(int64_t after) override {
    return api_.feed.after(after, project_.str(), resource_);
  }
  void look() override { ticket_ = api_.waiters.ticket(key_); }
  awaitable<void> wait(int64_t, Millis at_most) override {
    co_await api_.waiters.wait(key_, ticket_, at_most);
  }

 private:
  awaitable<Result<ChangePage>> read(int64_t after, int limit) {
    co_return co_await blocking<ChangePage>(
        exchange_, [&] { return api_.catalog.changes(project_, resource_, after, limit); });
  }

  Api& api_;
  const ProjectId project_;
  http::Exchange& exchange_;
  const std::string resource_;
  const ReadPage read_page_;
  const std::string key_;
  uint64_t ticket_ = 0;
};

awaitable<void> list_route(Api& api, const http::Identity& caller, http::Exchange& exchange,
                           const Resource& resource, ReadPage read_page) {
  auto options = read_options(exchange.request(), resource);
  if (!options) co_return co_await exchange.respond(http::status(options.error()));
  if (options->watch) {
    CatalogSource source(api, caller, exchange, resource, read_page);
    co_return co_await watch(api, caller, exchange, resource, std::move(*options), source);
  }
  auto response = co_await blocking<http::Response>(exchange, [&] {
    return list_answer(api, resource, *options, read_page(api, caller.project, options->query));
  });
  co_await exchange.respond(response ? std::move(*response) : http::status(response.error()));
}

awaitable<void> sandboxes_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  return list_route(api, caller, exchange, sandbox_resource(), sandbox_page);
}
awaitable<void> processes_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  return list_route(api, caller, exchange, process_resource(), process_page);
}
awaitable<void> events_route(Api& api, const http::Identity& caller, http::Exchange& exchange) {
  return list_route(api, caller, exchange, event_resource(), event_page);
}

template <class T, class Render>
Result<http::Response> one_of(Api& api, const Resource& resource, const http::Request& request,
                              Result<T> found, Render render) {
  auto form = form_of(request);
  if (!form) return std::unexpected(std::move(form.error()));
  if (!found) return std::unexpected(std::move(found.error()));
  return http::json(200, json::serialize(in_form(resource, *form, render(*found), true, api.clock.now())));
}

Result<http::Response> get_sandbox(Api& api, const http::Identity& caller, const http::Request& request) {
  return one_of(api, sandbox_resource(), request, api.catalog.view(caller.project, request.params.at("name")),
                [&](const SandboxView& view) { return render_sandbox(view, api.clock.now()); });
}

Result<http::Response> get_process(Api& api, const http::Identity& caller, const http::Request& request) {
  return one_of(api, process_resource(), request,
                api.catalog.process_view(caller.project, request.params.at("name")),
                [&](const ProcessView& view) {
                  std::optional<OutputSizes> kept;
                  const auto& admitted = view.process.admitted;
                  if (!view.process.ended)
                    if (const auto sizes = api.outputs.sizes({admitted.sandbox, admitted.uid})) kept = *sizes;
                  return render_process(view, kept);
                });
}

Result<http::Response> get_event(Api& api, const http::Identity& caller, const http::Request& request) {
  return one_of(api, event_resource(), request, api.catalog.event(caller.project, request.params.at("name")),
                [](const ObjectEvent& event) { return render_event(event); });
}

}  // namespace

Result<http::Response> list_answer(Api& api, const Resource& resource, const ReadOptions& options,
                                   Result<ObjectPage> page) {
  if (!page) return std::unexpected(std::move(page.error()));
  if (options.since && *options.since > page->resource_version)
    return fail(Code::kBadRequest, "Expired",
                "resourceVersion is newer than anything here. List without it and go on from there.");
  return list_response(resource, options, list_metadata(options, page->resource_version, page->next),
                       std::move(page->objects), api.clock.now());
}

std::vector<PublicRoute> read_routes() {
  const std::string project = "/apis/nodus.dev/v1/namespaces/{project}/";
  const std::string core = "/api/v1/namespaces/{project}/";  // where Kubernetes' clients look for Events
  std::vector<PublicRoute> table;
  const auto list = [&](std::string pattern, std::string name, StreamHandler handler) {
    table.push_back({.method = "GET",
                     .pattern = std::move(pattern),
                     .name = std::move(name),
                     .right = Right::kRead,
                     .effect = Effect::kReads,
                     .stream = handler});
  };
  const auto get = [&](std::string pattern, std::string name, PlainHandler handler) {
    table.push_back({.method = "GET",
                     .pattern = std::move(pattern),
                     .name = std::move(name),
                     .right = Right::kRead,
                     .effect = Effect::kReads,
                     .plain = handler});
  };
  list(project + "sandboxes", "sandboxes.list", sandboxes_route);
  list(project + "processes", "processes.list", processes_route);
  list(project + "events", "events.list", events_route);
  list(core + "events", "events.list.core", events_route);
  get(project + "sandboxes/{name}", "sandboxes.get", get_sandbox);
  get(project + "processes/{name}", "processes.get", get_process);
  get(project + "events/{name}", "events.get", get_event);
  get(core + "events/{name}", "events.get.core", get_event);
  return table;
}

}  // namespace nodus::lifecycle
