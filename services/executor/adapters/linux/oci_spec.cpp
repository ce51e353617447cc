#include "services/executor/adapters/linux/oci_spec.hpp"

#include <sched.h>
#include <sys/socket.h>

#include <boost/json.hpp>

#include <algorithm>

#include "services/executor/adapters/linux/cgroup.hpp"
#include "services/executor/app/ports.hpp"

namespace nodus::executor {
namespace json = boost::json;

// systrap: about 2.1 host tasks a process, and 25; kSandboxProcesses and 1,024 commands
static constexpr int kGvisorHostTasks = 4096;
static constexpr int kHelperChildren = 2048;     // commands and file requests: the helper bounds both
static constexpr int64_t kStartCpuMilli = 2000;  // until Host::limit_cpu, which comes before any command

static json::object bind(const char* destination, const std::filesystem::path& source, const char* mode) {
  return {{"destination", destination},
          {"type", "bind"},
          {"source", source.native()},
          {"options", {"bind", mode, "nosuid", "nodev"}}};
}

static json::array mounts(const BundleInput& input) {
  return {
      {{"destination", "/proc"},
       {"type", "proc"},
       {"source", "proc"},
       {"options", {"nosuid", "noexec", "nodev"}}},
      {{"destination", "/dev"},
       {"type", "tmpfs"},
       {"source", "tmpfs"},
       {"options", {"nosuid", "noexec", "strictatime", "mode=755", "size=65536k"}}},
      {{"destination", "/dev/pts"},
       {"type", "devpts"},
       {"source", "devpts"},
       {"options", {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}}},
      {{"destination", "/dev/shm"},
       {"type", "tmpfs"},
       {"source", "shm"},
       {"options", {"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}}},
      {{"destination", "/sys"},
       {"type", "sysfs"},
       {"source", "sysfs"},
       {"options", {"nosuid", "noexec", "nodev", "ro"}}},
      bind("/.nodus/helper", input.helper, "ro"),
      bind("/.run", input.run, "rw"),
  };
}

static json::object rlimit(const char* type, int value) {
  return {{"type", type}, {"hard", value}, {"soft", value}};
}

static json::object process(const BundleInput& input) {
  // CAP_SETPCAP: to empty the bounding set of commands; it gives nothing that is not in the set already.
  const json::array capabilities{"CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SETPCAP"};
  json::array limits{rlimit("RLIMIT_NOFILE", 8192), rlimit("RLIMIT_CORE", 0), rlimit("RLIMIT_RTPRIO", 0)};
  // Inside gVisor the limit counts what this Sandbox's commands start, not the commands, and a fork bomb gets
  // EAGAIN: the helper sets it for each command. Under runc it would count the user's processes on the whole
  // machine; there the cgroup counts, and nodusd adds each command that runs (SlotView::tasks_limit).
  json::array args{"/.nodus/helper", "/.run/helper.sock"};
  if (input.gvisor) {
    limits.push_back(rlimit("RLIMIT_NPROC", kHelperChildren));
    args.push_back(json::string(std::to_string(kSandboxProcesses)));
  }
  return {{"terminal", false},
          {"user", {{"uid", 0}, {"gid", 0}}},
          {"args", args},
          {"env", {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
          {"cwd", "/"},
          {"capabilities",
           {{"bounding", capabilities}, {"effective", capabilities}, {"permitted", capabilities}}},
          {"rlimits", limits},
          {"noNewPrivileges", true}};
}

static json::object rule(json::array names, int error_number = EPERM) {
  return {{"names", std::move(names)}, {"action", "SCMP_ACT_ERRNO"}, {"errnoRet", error_number}};
}

// An int argument is compared on its low 32 bits: a plain comparison is passed by setting high bits.
static json::object socket_rule(int family) {
  auto result = rule({"socket"}, EAFNOSUPPORT);
  result["args"] = {
      {{"index", 0}, {"value", 0xffffffffU}, {"valueTwo", family}, {"op", "SCMP_CMP_MASKED_EQ"}}};
  return result;
}

// runc shares the machine's kernel: calls that commands do not need and that kernels were broken through.
static json::object seccomp() {
  json::array rules{rule({"clone3"}, ENOSYS),  // its flags lie in memory; libraries fall back to clone
                    rule({"io_uring_setup",
                          "io_uring_enter",
                          "io_uring_register",
                          "bpf",
                          "perf_event_open",
                          "userfaultfd",
                          "keyctl",
                          "add_key",
                          "request_key",
                          "unshare",
                          "setns",
                          "mount",
                          "umount2",
                          "pivot_root",
                          "move_mount",
                          "open_tree",
                          "fsopen",
                          "fsconfig",
                          "fsmount",
                          "fspick",
                          "mount_setattr",
                          "kexec_load",
                          "kexec_file_load",
                          "init_module",
                          "finit_module",
                          "delete_module",
                          "open_by_handle_at",
                          "name_to_handle_at",
                          "process_vm_readv",
                          "process_vm_writev",
                          "kcmp",
                          "lookup_dcookie",
                          "quotactl",
                          "acct",
                          "swapon",
                          "swapoff",
                          "reboot",
                          "syslog",
                          "vmsplice",
                          "personality",
                          "fanotify_init"})};
  constexpr int kAfVsock = 40;
  for (const int family : {AF_ALG, AF_KEY, AF_RXRPC, kAfVsock, AF_PACKET, AF_XDP})
    rules.push_back(socket_rule(family));
  constexpr unsigned kNewTime = 0x80;
  for (const unsigned flag :
       {unsigned{CLONE_NEWNS}, unsigned{CLONE_NEWCGROUP}, unsigned{CLONE_NEWUTS}, unsigned{CLONE_NEWIPC},
        unsigned{CLONE_NEWUSER}, unsigned{CLONE_NEWPID}, unsigned{CLONE_NEWNET}, kNewTime}) {
    if (flag == kNewTime) continue;  // in clone these bits are the exit signal
    auto clone = rule({"clone"});
    clone["args"] = {{{"index", 0}, {"value", flag}, {"valueTwo", flag}, {"op", "SCMP_CMP_MASKED_EQ"}}};
    rules.push_back(std::move(clone));
  }
  return {{"defaultAction", "SCMP_ACT_ALLOW"}, {"architectures", {"SCMP_ARCH_X86_64"}}, {"syscalls", rules}};
}

static json::object resources(const BundleInput& input) {
  const Shape& shape = input.shape;
  return {{"devices", json::array{json::object{{"allow", false}, {"access", "rwm"}}}},
          {"cpu",
           {{"quota", std::max(shape.cpu_milli, kStartCpuMilli) * kCpuPeriodUs / 1000},
            {"period", kCpuPeriodUs}}},
          {"memory", {{"limit", shape.memory_bytes}, {"swap", shape.memory_bytes}}},  // together: no swap
          {"pids", {{"limit", input.gvisor ? kGvisorHostTasks : kSandboxProcesses}}}};
}

std::string bundle_json(const BundleInput& input) {
  json::array namespaces;
  for (const char* type : {"pid", "ipc", "uts", "mount", "cgroup"})
    namespaces.push_back(json::object{{"type", type}});
  namespaces.push_back(json::object{{"type", "network"}, {"path", input.netns.native()}});
  json::object linux{
      {"resources", resources(input)},
      {"cgroupsPath", input.cgroup},
      {"namespaces", namespaces},
      {"maskedPaths",
       {"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
        "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/proc/cgroups", "/sys/firmware",
        "/sys/devices/virtual/powercap", "/sys/fs/cgroup"}},
      {"readonlyPaths", {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}}};
  if (!input.gvisor) linux["seccomp"] = seccomp();
  const json::object spec{{"ociVersion", "1.0.2"},
                          {"process", process(input)},
                          {"root", {{"path", input.rootfs.native()}, {"readonly", false}}},
                          {"hostname", input.hostname},
                          {"mounts", mounts(input)},
                          {"linux", linux}};
  return json::serialize(spec);
}

}  // namespace nodus::executor
