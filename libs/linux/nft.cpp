#include "libs/linux/nft.hpp"

#include <nftables/libnftables.h>

#include <mutex>

#include "libs/base/check.hpp"

namespace nodus::linux {

namespace {

std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c != '\n')
      line += c;
    else if (!line.empty() && !line.ends_with("; "))
      line += "; ";
  }
  if (line.ends_with("; ")) line.resize(line.size() - 2);
  return line;
}

}  // namespace

struct Nft::State {
  std::mutex mutex;
  nft_ctx* context = nullptr;

  Result<std::string> run(const std::string& commands, unsigned output_flags) {
    const std::lock_guard lock(mutex);
    nft_ctx_output_set_flags(context, output_flags);
    const int failed = nft_run_cmd_from_buffer(context, commands.c_str());
    std::string out = nft_ctx_get_output_buffer(context);
    const std::string err = nft_ctx_get_error_buffer(context);
    if (failed != 0)
      return fail(Code::kInternal, "FirewallFailed", "nft refused the rules: " + one_line(err));
    return out;
  }
};

Nft::Nft() : state_(std::make_unique<State>()) {
  state_->context = nft_ctx_new(NFT_CTX_DEFAULT);
  CHECK(state_->context != nullptr);
  nft_ctx_buffer_output(state_->context);
  nft_ctx_buffer_error(state_->context);
}

Nft::~Nft() {
  nft_ctx_free(state_->context);
}

Result<void> Nft::apply(const std::string& commands) {
  auto done = state_->run(commands, 0);
  if (!done) return std::unexpected(done.error());
  return {};
}

Result<std::string> Nft::query(const std::string& command) {
  return state_->run(command, NFT_CTX_OUTPUT_JSON);
}

}  // namespace nodus::linux
