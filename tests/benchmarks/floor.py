"""The floor of a trial: what the docker command alone takes for the containers that a trial needs.

Create, start, exec, kill, rm; once for a solver that does nothing, once for a fresh grader: the same image, the same
hardening, no workspace, no harvest, no record.
"""

from __future__ import annotations

import subprocess
import threading
import time

from appliance.engine.hardening import PROFILE, container_body
from appliance.ports import ContainerSpec
from appliance.tasks.model import Limits


class Floor:
    def __init__(self, image_id: str, limits: Limits, solver_argv: tuple[str, ...], test_argv: tuple[str, ...]):
        self._create = self._create_words(image_id, limits)
        self._argvs = (solver_argv, test_argv)

    def once(self) -> float:
        """Seconds of one trial's containers."""
        began = time.monotonic()
        for argv in self._argvs:
            container = _docker(*self._create)
            _docker("start", container)
            _docker("exec", container, *argv)
            _docker("kill", container)
            _docker("rm", container)
        return time.monotonic() - began

    def at_once(self, number: int) -> float:
        """Seconds until `number` of them, started together, have ended."""
        began = time.monotonic()
        threads = [threading.Thread(target=self.once) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - began

    def _create_words(self, image_id: str, limits: Limits) -> tuple[str, ...]:
        spec = ContainerSpec(image=image_id, role="floor", labels={}, limits=limits, network="none", cgroup_parent=None)
        body = container_body(spec)
        host = body["HostConfig"]
        words = ["create", "--network", "none", "--read-only", "--log-driver", "none", "--no-healthcheck"]
        words += ["--security-opt", "no-new-privileges:true", "--security-opt", f"seccomp={PROFILE}"]
        words += ["--cap-drop", "ALL", "--pids-limit", str(host["PidsLimit"])]
        words += ["--memory", str(host["Memory"]), "--memory-swap", str(host["MemorySwap"])]
        words += ["--cpu-period", str(host["CpuPeriod"]), "--cpu-quota", str(host["CpuQuota"])]
        words += ["--ipc", host["IpcMode"], "--cgroupns", host["CgroupnsMode"], "--shm-size", str(host["ShmSize"])]
        words += ["--oom-score-adj", str(host["OomScoreAdj"]), "--user", body["User"], "--hostname", body["Hostname"]]
        words += ["--workdir", "/"]
        if host["Init"]:
            words.append("--init")
        for limit in host["Ulimits"]:
            words += ["--ulimit", f"{limit['Name']}={limit['Soft']}:{limit['Hard']}"]
        for target, options in host["Tmpfs"].items():
            words += ["--tmpfs", f"{target}:{options}"]
        for variable in body["Env"]:
            words += ["--env", variable]
        return (*words, image_id, *body["Cmd"])


def _docker(*words: str) -> str:
    ended = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    if ended.returncode and words[0] != "exec":
        raise RuntimeError(f"docker {words[0]}: {ended.stderr}")
    return ended.stdout.strip()
