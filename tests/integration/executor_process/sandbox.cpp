#include "tests/integration/executor_process/sandbox.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <vector>

#include "libs/base/random.hpp"
#include "services/executor/process/helper_client.hpp"

namespace nodus::executor::test {
namespace {
namespace fs = std::filesystem;

[[noreturn]] void missing(const std::string& sentence) {
  fprintf(stderr, "%s\n", sentence.c_str());
  _exit(1);
}

std::string find_program(const std::string& name) {
  std::vector<fs::path> places;
  if (const char* home = getenv("NODUS_HOME")) places.push_back(fs::path(home) / "tools/bin");
  places.push_back(fs::path(NODUS_SOURCE_DIR) / ".nodus/tools/bin");
  for (std::string path = getenv("PATH") ? getenv("PATH") : ""; !path.empty();) {
    const auto colon = path.find(':');
    places.push_back(path.substr(0, colon));
    path = colon == path.npos ? "" : path.substr(colon + 1);
  }
  places.push_back("/tmp/gv");
  for (const auto& place : places)
    if (access((place / name).c_str(), X_OK) == 0) return place / name;
  missing("This test needs " + name + " in $NODUS_HOME/tools/bin or on PATH (dev/install puts it there).");
}

pid_t launch(const std::vector<std::string>& argv, const fs::path& log) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0), dup2(fd, 1), dup2(fd, 2);
  std::vector<char*> args;
  for (const auto& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  execvp(args[0], args.data());
  _exit(127);
}

int run(const std::vector<std::string>& argv, const fs::path& log) {
  int status = 0;
  waitpid(launch(argv, log), &status, 0);
  return status;
}

// As a node limits the processes of a Sandbox.
std::string bundle_config(const fs::path& directory, const std::string& cgroup, Runtime runtime) {
  const std::string limit =
      runtime == Runtime::kRunsc ? R"(,{"type":"RLIMIT_NPROC","hard":2048,"soft":2048})" : "";
  const std::string processes = runtime == Runtime::kRunsc ? R"(,"256")" : "";
  const std::string caps = R"(["CAP_SETUID","CAP_SETGID","CAP_KILL","CAP_SETPCAP"])";
  const std::string safe = R"("nosuid","noexec","nodev")";
  return R"({"ociVersion":"1.0.2","hostname":"box","process":{"terminal":false,"user":{"uid":0,"gid":0},
"args":["/.nodus/helper","/.run/helper.sock")" +
         processes + R"(],"env":[],"cwd":"/","noNewPrivileges":true,
"capabilities":{"bounding":)" +
         caps + R"(,"effective":)" + caps + R"(,"permitted":)" + caps + R"(},
"rlimits":[{"type":"RLIMIT_NOFILE","hard":8192,"soft":1024})" +
         limit + R"(]},
"root":{"path":")" +
         (directory / "rootfs").string() + R"("},
"mounts":[{"destination":"/proc","type":"proc","source":"proc","options":[)" +
         safe + R"(]},
{"destination":"/dev","type":"tmpfs","source":"tmpfs",
"options":["nosuid","strictatime","mode=755","size=65536k"]},
{"destination":"/dev/pts","type":"devpts","source":"devpts",
"options":["nosuid","noexec","newinstance","ptmxmode=0666","mode=0620","gid=5"]},
{"destination":"/.nodus","type":"bind","source":")" +
         (directory / "bin").string() +
         R"(","options":["bind","ro","nosuid","nodev"]},
{"destination":"/.run","type":"bind","source":")" +
         (directory / "run").string() +
         R"(","options":["bind","rw","nosuid","nodev","noexec"]}],
"linux":{"namespaces":[{"type":"pid"},{"type":"ipc"},{"type":"uts"},{"type":"mount"},{"type":"network"}],
"cgroupsPath":")" +
         cgroup + R"(","resources":{"pids":{"limit":256}}}})";
}
}  // namespace

const char* to_text(Runtime runtime) {
  return runtime == Runtime::kPlain ? "plain" : runtime == Runtime::kRunc ? "runc" : "runsc";
}

Sandbox::Sandbox(Runtime runtime) : runtime_(runtime), id_("nodus-test-" + to_hex(random_bytes(6))) {
  if (geteuid() != 0) missing("This test needs root: it starts containers and changes users.");
  char path[] = "/tmp/nodus-process-XXXXXX";
  if (!mkdtemp(path)) missing("This test cannot make a directory under /tmp.");
  directory_ = path;
  chmod(path, 0755);
  for (const char* name : {"run", "bin", "state", "rootfs"}) fs::create_directory(directory_ / name);
  chmod((directory_ / "run").c_str(), 0700);
  fs::copy_file(NODUS_HELPER, directory_ / "bin/helper");
  make_root();
  if (runtime != Runtime::kPlain)
    std::ofstream(directory_ / "config.json") << bundle_config(directory_, id_, runtime);
  start();
}

void Sandbox::make_root() {
  const fs::path work = workspace();
  fs::create_directories(work);
  if (chown(work.c_str(), kUser, kUser) < 0) missing("This test cannot give a directory to another user.");
  if (runtime_ == Runtime::kPlain) return;
  const fs::path busybox = find_program("busybox");
  for (const char* name : {"bin", "etc", "proc", "dev", "tmp", ".nodus", ".run"})
    fs::create_directory(root() / name);
  chmod((root() / "tmp").c_str(), 01777);
  fs::copy_file(busybox, root() / "bin/busybox");
  std::ofstream(root() / "etc/passwd") << "root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/workspace:/bin/sh\n";
  for (const char* name :
       {"sh",    "echo", "cat",    "sleep", "id",    "ls",   "head",  "dd",  "yes", "true",
        "false", "kill", "setsid", "nohup", "env",   "pwd",  "mkdir", "rm",  "ln",  "mkfifo",
        "seq",   "grep", "test",   "touch", "chmod", "stty", "tty",   "cut", "wc",  "ps"})
    fs::create_symlink("busybox", root() / "bin" / name);
}

fs::path Sandbox::workspace() const {
  return runtime_ == Runtime::kPlain ? directory_ / "workspace" : root() / "workspace";
}

std::string Sandbox::inside() const {
  return runtime_ == Runtime::kPlain ? workspace().string() : "/workspace";
}

void Sandbox::start() {
  std::vector<std::string> argv;
  if (runtime_ == Runtime::kPlain) {
    argv = {"unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
            (directory_ / "bin/helper").string(),
            socket().string()};
  } else {
    program_ = find_program(to_text(runtime_));
    argv = {program_, "--root", (directory_ / "state").string()};
    if (runtime_ == Runtime::kRunsc)
      argv.insert(argv.end(), {"--platform=systrap", "--network=none", "--overlay2=none", "--host-uds=create",
                               "--ignore-cgroups", "--directfs=false"});
    argv.insert(argv.end(), {"run", "--bundle", directory_.string(), id_});
  }
  pid_ = launch(argv, directory_ / "log");
  const bool up = eventually([&] {
    const int fd = connect_unix(socket());
    if (fd >= 0) close(fd);
    return fd >= 0;
  });
  if (up) return;
  run({"cat", (directory_ / "log").string()}, "/dev/stderr");
  missing(std::string("The helper did not come up under ") + to_text(runtime_) + ".");
}

fs::path Sandbox::tasks_limit() const {
  if (runtime_ != Runtime::kRunc) return {};
  for (const char* root : {"/sys/fs/cgroup/pids", "/sys/fs/cgroup"})
    if (const auto file = fs::path(root) / id_ / "pids.max"; fs::exists(file)) return file;
  missing("This test needs the container's cgroup, which counts its processes.");
}

int Sandbox::exec(const std::vector<std::string>& argv) const {
  std::vector<std::string> all = {program_, "--root", (directory_ / "state").string(), "exec", id_};
  all.insert(all.end(), argv.begin(), argv.end());
  return run(all, directory_ / "log");
}

Sandbox::~Sandbox() {
  if (runtime_ == Runtime::kPlain) {
    // The helper changes its credentials, which makes the kernel forget unshare's --kill-child: it is ended
    // by its own pid, and its namespace with it.
    pid_t helper = 0;
    const std::string self = std::to_string(pid_);
    if (std::ifstream("/proc/" + self + "/task/" + self + "/children") >> helper) kill(helper, SIGKILL);
    kill(pid_, SIGKILL);
  } else {
    run({program_, "--root", (directory_ / "state").string(), "kill", id_, "KILL"}, directory_ / "log");
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  if (runtime_ != Runtime::kPlain) {
    const bool sc = runtime_ == Runtime::kRunsc;
    run({program_, "--root", (directory_ / "state").string(), "delete", sc ? "-force" : "--force", id_},
        directory_ / "log");
    run({"umount", "-l", (directory_ / "state/null-netns").string()}, directory_ / "log");
  }
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

}  // namespace nodus::executor::test
