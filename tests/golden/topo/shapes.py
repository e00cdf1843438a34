"""Writes the machines of this folder that have GPUs, in the XML of hwloc: `python3 shapes.py`, in this folder.

They have the shapes of known nodes, from what their sites publish, and nothing else of them.

gpus-3-1-7-5.xml    2 packages of 4 NUMA nodes of 6 cores with 2 hardware threads; a GPU and an InfiniBand interface below one PCI
                    switch each, on NUMA nodes 3, 1, 7 and 5
gpus-0-2-4-6.xml    2 packages of 4 NUMA nodes of 8 cores; GPUs on NUMA nodes 0, 2, 4 and 6, interfaces on 0 and 4
gpus-0-0-1-1.xml    2 packages of one NUMA node of 20 cores with 2 hardware threads; two GPUs and an InfiniBand interface on each,
                    and Ethernet for administration on the first
gpus-eight.xml      1 package of 4 NUMA nodes of 16 cores; eight devices, numbers 4 and 5 on NUMA node 0, 2 and 3 on 1, 6 and 7
                    on 2, 0 and 1 on 3, with an interface for each pair below its PCI switch
"""


class Writer:
    def __init__(self, name, cores, threads, nodes):
        self.name, self.cores, self.threads, self.nodes, self.lines, self.index, self.depth = name, cores, threads, nodes, [], 0, 0

    def mask(self, bits):
        value, words = sum(1 << b for b in bits), []
        while value or not words:
            words.insert(0, f"0x{value & 0xffffffff:08x}")
            value >>= 32
        return ",".join(words)

    def open(self, type_, close=False, **attributes):
        self.index += 1
        text = "".join(f' {key}="{value}"' for key, value in attributes.items())
        self.lines.append("  " * self.depth + f'<object type="{type_}"{text} gp_index="{self.index}"{"/" if close else ""}>')
        self.depth += not close

    def close(self):
        self.depth -= 1
        self.lines.append("  " * self.depth + "</object>")

    def info(self, name, value):
        self.lines.append("  " * self.depth + f'<info name="{name}" value="{value}"/>')

    def sets(self, cores, nodes, top=()):
        cpus = self.mask(c + t * self.cores for c in cores for t in range(self.threads))
        found = {}
        for kind, value in (("cpuset", cpus), ("nodeset", self.mask(nodes))):
            found |= {kind: value, f"complete_{kind}": value, **({f"allowed_{kind}": value} if top else {})}
        return found

    def core(self, c, node):
        self.open("Core", os_index=c, **self.sets([c], [node]))
        for t in range(self.threads):
            one = {"cpuset": self.mask([c + t * self.cores]), "nodeset": self.mask([node])}
            self.open("PU", True, os_index=c + t * self.cores, **one, **{f"complete_{k}": v for k, v in one.items()})
        self.close()

    def device(self, bus, number, kind):
        """kind: "gpu", or the name of an interface; PCI device `number` of a bus."""
        gpu, fabric = kind == "gpu", kind.startswith("mlx")
        vendor, model, name = (0x1002, 0x7408, 0x0380) if gpu and self.name == "gpus-eight" else (0x10de, 0x20b0, 0x0302) if gpu else (0x15b3, 0x101b, 0x0207 if fabric else 0x0200)
        self.open("PCIDev", pci_busid=f"0000:{bus:02x}:{number:02x}.0", pci_type=f"{name:04x} [{vendor:04x}:{model:04x}] [0000:0000] 00", pci_link_speed="0.0")
        if gpu:
            self.open("OSDev", name=f"gpu{bus:02x}", osdev_type=5)
            self.info("AMDUUID" if vendor == 0x1002 else "NVIDIAUUID", f"GPU-{bus:02x}{number:02x}0000-made-up")
        else:
            self.open("OSDev", name=kind, osdev_type=3 if fabric else 2)
        self.close()
        self.close()

    def bridge(self, bus, devices):
        """The devices of one root port, below a PCI switch if there are several."""
        self.open("Bridge", bridge_type="0-1", depth=0, bridge_pci=f"0000:[{bus:02x}-{bus + 3:02x}]")
        self.open("Bridge", bridge_type="1-1", depth=1, bridge_pci=f"0000:[{bus + 1:02x}-{bus + 3:02x}]", pci_busid=f"0000:{bus:02x}:01.0",
                  pci_type="0604 [1022:1483] [0000:0000] 00", pci_link_speed="0.0")
        for i, kind in enumerate(devices):
            self.device(bus + 1, i, kind)
        self.close()
        self.close()


def write(name, packages, nodes, cores, threads, ports):
    """ports: (NUMA node, bus, devices of that port)."""
    w = Writer(name, packages * nodes * cores, threads, packages * nodes)
    every = range(w.cores)
    w.open("Machine", os_index=0, **w.sets(every, range(w.nodes), top=True))
    w.info("HostName", name)
    for p in range(packages):
        mine = range(p * nodes, (p + 1) * nodes)
        w.open("Package", os_index=p, **w.sets([c for n in mine for c in range(n * cores, (n + 1) * cores)], mine))
        for n in mine:
            sets = w.sets(range(n * cores, (n + 1) * cores), [n])
            if nodes > 1:
                w.open("Group", **sets, kind=10, subkind=0)
            w.open("NUMANode", True, os_index=n, **sets, local_memory=64 << 30)
            for c in range(n * cores, (n + 1) * cores):
                w.core(c, n)
            for node, bus, devices in ports:
                if node == n:
                    w.bridge(bus, devices)
            if nodes > 1:
                w.close()
        w.close()
    w.close()
    with open(f"{name}.xml", "w") as f:
        f.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">\n' +
                "\n".join(w.lines) + "\n</topology>\n")


if __name__ == "__main__":
    write("gpus-3-1-7-5", 2, 4, 6, 2, [(n, 0x10 * (i + 1), ["gpu", f"mlx5_{i}"]) for i, n in enumerate((3, 1, 7, 5))])
    write("gpus-0-2-4-6", 2, 4, 8, 1, [(n, 0x10 * (i + 1), ["gpu"]) for i, n in enumerate((0, 2, 4, 6))] +
          [(0, 0x80, ["mlx5_0"]), (4, 0x90, ["mlx5_1"])])
    write("gpus-0-0-1-1", 2, 1, 20, 2, [(n, 0x10 * (i + 1), ["gpu"]) for i, n in enumerate((0, 0, 1, 1))] +
          [(0, 0x80, ["mlx5_0"]), (1, 0x90, ["mlx5_1"]), (0, 0xa0, ["eth0"])])
    write("gpus-eight", 1, 4, 16, 1, [(n, 0x10 * (i + 1), ["gpu", "gpu", f"hsn{i}"]) for i, n in enumerate((3, 1, 0, 2))])
