"""Reads a file of `dctms plan --emit FORMAT` as its scheduler would, and refuses what it does not expect: a key too many or too few, a
value of another type, a character that would be substituted. Prints what it found, a line each:

    memory BYTES      lock BYTES, or "lock capability", or nothing      word TEXT (the command, from the program on)      see PATH

usage: check_emit.py FORMAT FILE        exit code 77: what is needed to read the format is not installed
"""
import re
import sys


def fail(why):
    sys.exit("%s: %s" % (sys.argv[2], why))


def keys(mapping, wanted, optional=""):
    if not isinstance(mapping, dict):
        fail("%r is no mapping" % (mapping,))
    have, wanted, optional = set(mapping), set(wanted.split()), set(optional.split())
    if not wanted <= have or not have <= wanted | optional:
        fail("keys %s, not %s" % (sorted(have), sorted(wanted)))


def same(value, wanted):
    if type(value) is not type(wanted) or value != wanted:
        fail("%r is not %r" % (value, wanted))


def text(value):
    if not isinstance(value, str):
        fail("%r is no text" % (value,))
    return value


def undouble(value, mark):
    """Marks that stand for themselves are doubled; a single one would begin a substitution."""
    parts = text(value).split(mark * 2)
    if any(mark in part for part in parts):
        fail("%r substitutes" % value)
    return mark.join(parts)


def systemd(source):
    wanted = {"Unit": {"Description"}, "Service": {"Type", "ExecStart", "MemoryAccounting", "MemoryMax", "MemorySwapMax", "NoNewPrivileges"}}
    found, section = {}, None
    for line in source.splitlines():
        if line == "" or line.startswith("#"):
            continue
        if re.fullmatch(r"\[\w+\]", line):
            section = found.setdefault(line[1:-1], {})
            continue
        key, equals, value = line.partition("=")
        if not equals or section is None or key in section:
            fail("line %r" % line)
        section[key] = value
    keys(found, " ".join(wanted))
    for name in wanted:
        keys(found[name], " ".join(wanted[name]), "LimitMEMLOCK" if name == "Service" else "")
    service = found["Service"]
    same(service["Type"], "oneshot")
    same(service["MemorySwapMax"], "0")
    print("memory", int(service["MemoryMax"]))
    if "LimitMEMLOCK" in service:
        print("lock", int(service["LimitMEMLOCK"]))
    line = service["ExecStart"]
    word = re.compile(r'"((?:[^"\\]|\\["\\])*)"(?: |$)')
    at = 0
    while at < len(line):
        found = word.match(line, at)
        if found is None:
            fail("ExecStart at %r" % line[at:])
        print("word", undouble(undouble(re.sub(r"\\(.)", r"\1", found.group(1)), "%"), "$"))
        at = found.end()


def docker(compose):
    keys(compose, "services")
    (service,) = compose["services"].values()
    keys(service, "image entrypoint command mem_limit memswap_limit volumes restart", "ulimits")
    same(service["entrypoint"], ["dctms"])
    same(service["restart"], "no")
    same(service["memswap_limit"], text(service["mem_limit"]))
    print("memory", int(re.fullmatch(r"(\d+)b", service["mem_limit"]).group(1)))
    if "ulimits" in service:
        keys(service["ulimits"], "memlock")
        keys(service["ulimits"]["memlock"], "soft hard")
        same(service["ulimits"]["memlock"]["soft"], service["ulimits"]["memlock"]["hard"])
        print("lock", int(service["ulimits"]["memlock"]["hard"]))
    print("word dctms")
    for word in service["command"]:
        print("word", undouble(word, "$"))
    for volume in service["volumes"]:
        keys(volume, "type source target read_only")
        same(volume["type"], "bind")
        same(volume["read_only"], True)
        same(volume["target"], volume["source"])
        print("see", undouble(volume["source"], "$"))


def kubernetes(pod):
    keys(pod, "apiVersion kind metadata spec")
    same(pod["apiVersion"], "v1")
    same(pod["kind"], "Pod")
    keys(pod["metadata"], "name")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", pod["metadata"]["name"]):
        fail("name %r" % pod["metadata"]["name"])
    spec = pod["spec"]
    keys(spec, "restartPolicy containers volumes")
    same(spec["restartPolicy"], "Never")
    (container,) = spec["containers"]
    keys(container, "name image command args resources volumeMounts", "securityContext")
    same(container["command"], ["dctms"])
    keys(container["resources"], "requests limits")
    same(container["resources"]["requests"], container["resources"]["limits"])
    keys(container["resources"]["limits"], "memory cpu")
    print("memory", int(text(container["resources"]["limits"]["memory"])))
    if "securityContext" in container:
        same(container["securityContext"], {"capabilities": {"add": ["IPC_LOCK"]}})
        print("lock capability")
    print("word dctms")
    for word in container["args"]:
        print("word", undouble(word, "$"))
    paths = {}
    for volume in spec["volumes"]:
        keys(volume, "name hostPath")
        keys(volume["hostPath"], "path type")
        paths[volume["name"]] = text(volume["hostPath"]["path"])
    for mount in container["volumeMounts"]:
        keys(mount, "name readOnly mountPath")
        same(mount["readOnly"], True)
        same(mount["mountPath"], paths.pop(mount["name"]))
        print("see", mount["mountPath"])
    same(paths, {})


class Hcl:
    """Blocks `type "label" { ... }` and attributes `name = value`, one a line; values are strings, numbers and lists of strings."""

    token = re.compile(r'[ \t]*(#[^\n]*|\n|"(?:[^"\\\n]|\\["\\])*"|[A-Za-z_]\w*|\d+|[{}\[\],=])')

    def __init__(self, source):
        self.tokens, at = [], 0
        while at < len(source):
            found = self.token.match(source, at)
            if found is None:
                fail("at %r" % source[at:at + 40])
            if not found.group(1).startswith("#"):
                self.tokens.append(found.group(1))
            at = found.end()

    def take(self, wanted=None):
        token = self.tokens.pop(0)
        if wanted is not None and token != wanted:
            fail("%r where %r belongs" % (token, wanted))
        return token

    def string(self, token):
        value = re.sub(r"\\(.)", r"\1", token[1:-1])
        if re.search(r"(?<!\$)\$\{|(?<!%)%\{", value):
            fail("%r substitutes" % value)
        return value.replace("$${", "${").replace("%%{", "%{")

    def value(self):
        token = self.take()
        if token == "[":
            items = []
            while True:
                items.append(self.string(self.take()))
                if self.take() == "]":
                    return items
        if token in ("true", "false"):
            return token
        return self.string(token) if token.startswith('"') else int(token)

    def body(self, end):
        found = {}
        while self.tokens:
            name = self.take()
            if name == "\n":
                continue
            if name == end:
                return found
            labels = []
            while self.tokens[0].startswith('"'):
                labels.append(self.string(self.take()))
            if self.tokens[0] == "=":
                if labels or name in found:
                    fail("attribute %r" % name)
                self.take()
                found[name] = self.value()
                self.take("\n")
            else:
                self.take("{")
                self.take("\n")
                found.setdefault(name, []).append((labels, self.body("}")))
                self.take("\n")
        if end is not None:
            fail("a block does not end")
        return found


def block(found, name, labels):
    ((has, body),) = found[name]
    same(len(has), labels)
    return body


def nomad(source):
    file = Hcl(source).body(None)
    keys(file, "job")
    job = block(file, "job", 1)
    keys(job, "type group")
    same(job["type"], "batch")
    group = block(job, "group", 1)
    keys(group, "task")
    task = block(group, "task", 1)
    keys(task, "driver config resources")
    same(task["driver"], "docker")
    config, resources = block(task, "config", 0), block(task, "resources", 0)
    keys(config, "image entrypoint args mount", "ulimit")
    same(config["entrypoint"], ["dctms"])
    keys(resources, "cores memory")
    print("memory", resources["memory"] * 1024 * 1024)
    if "ulimit" in config:
        soft, hard = block(config, "ulimit", 0)["memlock"].split(":")
        same(soft, hard)
        print("lock", int(hard))
    for word in ["dctms"] + config["args"]:
        print("word", word)
    for labels, mount in config["mount"]:
        keys(mount, "type source target readonly")
        same(mount["type"], "bind")
        same(mount["readonly"], "true")
        same(mount["target"], mount["source"])
        print("see", mount["source"])


def main():
    kind = sys.argv[1]
    with open(sys.argv[2], encoding="utf-8") as file:
        source = file.read()
    if kind in ("docker", "kubernetes"):
        try:
            import yaml
        except ImportError:
            sys.exit(77)
        source = yaml.safe_load(source)
    {"systemd": systemd, "docker": docker, "kubernetes": kubernetes, "nomad": nomad}[kind](source)


main()
