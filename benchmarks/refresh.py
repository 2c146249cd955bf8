"""How long does a full-size refresh take, and how much memory? Prints a table; exits 1 beyond the limits.

    python benchmarks/refresh.py [--latency-ms 50] [--narrowed] [--json] [--limit-s 90] [--limit-mb 700]

A second process serves the clouds' price APIs on the loopback address at their full size, each reply after the
latency: AWS with 30 regions, Google Cloud with 32,000 SKUs in 7 pages and 39,000 machine types in 78, Azure with 50
regions of 16 pages of 1,000 rows. `estimator prices refresh` runs against it as a command with an empty store, then
once more with nothing changed; wall seconds, processor seconds, the peak of resident memory and what was written to
disk are those of the command. Last, current offers are read from the filled store as a plan does. `--narrowed`: Azure
honours contains() and sends the GPU sizes alone, as the real service documents; without it all 16 pages of a region
are sent and read.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit
from zlib import crc32

ROOT = Path(__file__).resolve().parent.parent
NOW = "2026-09-15T12:00:00Z"
_PLACES = (
    "us-east",
    "us-west",
    "eu-west",
    "eu-central",
    "ap-south",
    "ap-southeast",
    "sa-east",
    "ca-central",
    "me-south",
)
AWS_REGIONS = [f"{place}-{n}" for place in (*_PLACES, "af-south") for n in (1, 2, 3)]
AZURE_REGIONS = 50
AZURE_PAGES, AZURE_ROWS = 16, 1000
SKU_PAGES, SKUS = 7, 32_000
GCP_ZONES, MACHINES_A_ZONE, MACHINES_A_PAGE = 130, 300, 500


@cache
def gpu_types() -> list[tuple[str, float]]:
    """The AWS GPU machines of the shipped table and a made-up price of each."""
    from pricing.instances import instance_types

    found = [m for (cloud, _), m in instance_types().items() if cloud == "aws" and m.accelerator == "gpu"]
    return [(m.instance_type, round(0.5 + 3.1 * (m.gpus or 1) + n * 0.01, 4)) for n, m in enumerate(found)]


# --------------------------------------------------------------------------------------------------------------- AWS
@cache
def products(region: str) -> bytes:
    """A page of GetProducts: the GPU machines of a region."""
    texts = []
    for name, price in gpu_types():
        sku = f"{crc32((name + region).encode()):016X}"
        attributes = {
            "instanceType": name, "regionCode": region, "instanceFamily": "GPU instance", "operatingSystem": "Linux",
            "tenancy": "Shared", "capacitystatus": "Used", "preInstalledSw": "NA", "marketoption": "OnDemand",
            "operation": "RunInstances", "usagetype": f"BoxUsage:{name}", "licenseModel": "No License required",
            "locationType": "AWS Region", "location": region, "vcpu": "96", "memory": "1152 GiB", "gpu": "8",
            "physicalProcessor": "Intel Xeon Platinum 8275L", "networkPerformance": "400 Gigabit",
        }  # fmt: skip
        dimension = {"unit": "Hrs", "beginRange": "0", "endRange": "Inf", "appliesTo": [], "description": "on demand",
                     "pricePerUnit": {"USD": f"{price:.10f}"}}  # fmt: skip
        term = {"priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": dimension}, "sku": sku, "termAttributes": {},
                "effectiveDate": "2026-09-01T00:00:00Z", "offerTermCode": "JRTCKXETXF"}  # fmt: skip
        reserved = {f"{sku}.{n}": {**term, "offerTermCode": str(n)} for n in range(12)}
        terms = {"OnDemand": {f"{sku}.JRTCKXETXF": term}, "Reserved": reserved}
        product = {"productFamily": "Compute Instance", "sku": sku, "attributes": attributes}
        texts.append(json.dumps({"product": product, "serviceCode": "AmazonEC2", "terms": terms}))
    return json.dumps({"FormatVersion": "aws_v1", "PriceList": texts}).encode()


def ec2_reply(action: str, inner: str) -> bytes:
    return (f'<{action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>{inner}'
            f"</{action}Response>").encode()  # fmt: skip


@cache
def spot_history(region: str) -> bytes:
    """Every GPU machine in three zones, two product descriptions and two changes each."""
    rows = []
    for name, price in gpu_types():
        for zone, share in (("a", 0.4), ("b", 0.5), ("c", 0.6)):
            for product in ("Linux/UNIX", "Linux/UNIX (Amazon VPC)"):
                for hour, factor in (("09", 1.0), ("02", 1.1)):
                    rows.append(
                        f"<item><instanceType>{name}</instanceType><productDescription>{product}</productDescription>"
                        f"<spotPrice>{price * share * factor:.6f}</spotPrice><timestamp>2026-09-15T{hour}:00:00.000Z"
                        f"</timestamp><availabilityZone>{region}{zone}</availabilityZone></item>"
                    )
    return ec2_reply("DescribeSpotPriceHistory", f"<spotPriceHistorySet>{''.join(rows)}</spotPriceHistorySet>")


@cache
def instance_types_xml(page: int) -> bytes:
    """1,000 instance types in ten pages, the GPU machines first."""
    names = [name for name, _ in gpu_types()] + [f"m{n}.large" for n in range(1000)]
    rows = []
    for n, name in enumerate(names[page * 100 : page * 100 + 100]):
        card = "<name>T4</name><count>1</count><memoryInfo><sizeInMiB>16384</sizeInMiB></memoryInfo>"
        gpu = f"<gpuInfo><gpus><item>{card}</item></gpus></gpuInfo>"
        has_gpu = page * 100 + n < len(gpu_types())
        rows.append(f"<item><instanceType>{name}</instanceType><vCpuInfo><defaultVCpus>8</defaultVCpus></vCpuInfo>"
                    f"<memoryInfo><sizeInMiB>32768</sizeInMiB></memoryInfo>{gpu * has_gpu}</item>")  # fmt: skip
    token = f"<nextToken>{page + 1}</nextToken>" if page < 9 else ""
    return ec2_reply("DescribeInstanceTypes", f"<instanceTypeSet>{''.join(rows)}</instanceTypeSet>{token}")


@cache
def offerings() -> bytes:
    names = [name for name, _ in gpu_types()] + [f"m{n}.large" for n in range(800)]
    rows = "".join(f"<item><instanceType>{n}</instanceType><locationType>region</locationType></item>" for n in names)
    return ec2_reply("DescribeInstanceTypeOfferings", f"<instanceTypeOfferingSet>{rows}</instanceTypeOfferingSet>")


def aws(path: str, query: dict[str, str], body: bytes, headers: Any) -> tuple[bytes, str]:
    if headers.get("X-Amz-Target"):
        filters = json.loads(body)["Filters"]
        return products(next(f["Value"] for f in filters if f["Field"] == "regionCode")), "application/x-amz-json-1.1"
    form = dict(parse_qsl(body.decode()))
    match = re.search(r"Credential=[^/]+/\d{8}/([^/]+)/", headers.get("Authorization", ""))
    region, action = match[1] if match else "", form["Action"]
    if action == "DescribeRegions":
        rows = "".join(f"<item><regionName>{name}</regionName></item>" for name in AWS_REGIONS)
        return ec2_reply(action, f"<regionInfo>{rows}</regionInfo>"), "text/xml"
    if action == "DescribeInstanceTypes":
        return instance_types_xml(int(form.get("NextToken", "0"))), "text/xml"
    return (offerings() if action == "DescribeInstanceTypeOfferings" else spot_history(region)), "text/xml"


@cache
def advisor() -> bytes:
    types = {name: {"s": 60, "r": n % 5} for n, (name, _) in enumerate(gpu_types())}
    types |= {f"m{n}.large": {"s": 50, "r": 1} for n in range(700)}
    labels = ["<5%", "5-10%", "10-15%", "15-20%", ">20%"]
    ranges = [{"index": n, "label": label} for n, label in enumerate(labels)]
    return json.dumps(
        {"ranges": ranges, "spot_advisor": {r: {"Linux": types, "Windows": types} for r in AWS_REGIONS}}
    ).encode()


# --------------------------------------------------------------------------------------------------------------- GCP
def sku(n: int, description: str, group: str, usd: str, regions: list[str], usage: str = "OnDemand") -> dict[str, Any]:
    unit = "GiBy.h" if " Ram " in description else "GiBy.mo" if group == "LocalSSD" else "h"
    whole, _, part = usd.partition(".")
    return {
        "name": f"services/6F81-5844-456A/skus/{n:012X}", "skuId": f"{n:012X}", "description": description,
        "category": {"serviceDisplayName": "Compute Engine", "resourceGroup": group, "usageType": usage,
                     "resourceFamily": "Storage" if group == "LocalSSD" else "Compute"},
        "serviceRegions": regions, "serviceProviderName": "Google",
        "geoTaxonomy": {"type": "REGIONAL", "regions": regions},
        "pricingInfo": [{"summary": "", "currencyConversionRate": 1, "effectiveTime": "2026-09-15T10:21:07.331Z",
                         "pricingExpression": {"usageUnit": unit, "usageUnitDescription": "hour", "baseUnit": "s",
                                               "baseUnitDescription": "second", "baseUnitConversionFactor": 3600,
                                               "displayQuantity": 1, "tieredRates": [
                             {"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": whole,
                                                                   "nanos": int((part + "0" * 9)[:9])}}]}}],
    }  # fmt: skip


@cache
def gcp_regions() -> list[str]:
    return [
        f"{area}{n}" for area in ("us-central", "us-east", "us-west", "europe-west", "asia-east") for n in range(1, 10)
    ][:44]


@cache
def sku_page(page: int) -> bytes:
    """The parts of A2, A3, G2 and N1 in 44 regions, on demand and spot, among other SKUs."""
    wanted = [("A2 Instance Core", "CPU", "0.031611"), ("A2 Instance Ram", "RAM", "0.004237"),
              ("A3 Instance Core", "CPU", "0.0255"), ("A3 Instance Ram", "RAM", "0.002220118"),
              ("G2 Instance Core", "CPU", "0.024988"), ("G2 Instance Ram", "RAM", "0.002927501"),
              ("N1 Predefined Instance Core", "N1Standard", "0.031611"),
              ("N1 Predefined Instance Ram", "N1Standard", "0.004237")]  # fmt: skip
    cards = [("Nvidia Tesla A100 GPU", "2.933908"), ("Nvidia H100 80GB GPU", "9.796550569"),
             ("Nvidia L4 GPU", "0.560040239"), ("Nvidia Tesla T4 GPU", "0.35"),
             ("Nvidia Tesla V100 GPU", "2.48")]  # fmt: skip
    rows: list[dict[str, Any]] = []
    for region in gcp_regions():
        for text, group, usd in wanted:
            rows.append(sku(len(rows), f"{text} running in {region}", group, usd, [region]))
            spot = f"Spot Preemptible {text} running in {region}"
            rows.append(sku(len(rows), spot, group, usd.replace("0.0", "0.01"), [region], "Preemptible"))
        for text, usd in cards:
            rows.append(sku(len(rows), f"{text} running in {region}", "GPU", usd, [region]))
            spot = f"{text} attached to Spot Preemptible VMs running in {region}"
            rows.append(sku(len(rows), spot, "GPU", f"{float(usd) / 2:.6f}", [region], "Preemptible"))
        rows.append(sku(len(rows), f"SSD backed Local Storage in {region}", "LocalSSD", "0.08", [region]))
        spot = f"SSD backed Local Storage attached to Spot Preemptible VMs in {region}"
        rows.append(sku(len(rows), spot, "LocalSSD", "0.04", [region], "Preemptible"))
    kinds = [("N2 Instance Core", "CPU", "OnDemand"), ("Commitment v1: N2 Cpu", "CPU", "Commit1Yr"),
             ("C4D Instance Ram", "RAM", "OnDemand"),
             ("Network Inter Region Data Transfer Out", "InterregionEgress", "OnDemand"),
             ("Licensing Fee for Windows Server", "Google", "OnDemand"),
             ("Storage PD Capacity", "SSD", "OnDemand")]  # fmt: skip
    while len(rows) < SKUS:
        text, group, usage = kinds[len(rows) % len(kinds)]
        region = gcp_regions()[len(rows) % 44]
        rows.append(sku(len(rows), f"{text} running in {region}", group, "0.01", [region], usage))
    size = -(-SKUS // SKU_PAGES)
    out: dict[str, Any] = {"skus": rows[page * size : (page + 1) * size]}
    out["nextPageToken"] = str(page + 1) if page + 1 < SKU_PAGES else ""
    return json.dumps(out, indent=1).encode()


@cache
def machine_pages() -> list[bytes]:
    """300 machine types in each of 130 zones, 500 a page, a dozen of them with GPUs."""
    gpus = [("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100", 1, 0), ("a2-highgpu-2g", 24, 170, "nvidia-tesla-a100", 2, 0),
            ("a2-highgpu-4g", 48, 340, "nvidia-tesla-a100", 4, 0),
            ("a2-highgpu-8g", 96, 680, "nvidia-tesla-a100", 8, 0),
            ("a3-highgpu-8g", 208, 1872, "nvidia-h100-80gb", 8, 16), ("g2-standard-4", 4, 16, "nvidia-l4", 1, 0),
            ("g2-standard-48", 48, 192, "nvidia-l4", 4, 0), ("g2-standard-96", 96, 384, "nvidia-l4", 8, 0)]  # fmt: skip
    flat: list[tuple[str, dict[str, Any]]] = []
    for zone in zones():
        for n in range(MACHINES_A_ZONE):
            name, cpus, mem = f"n2-standard-{n}", 8, 32
            row: dict[str, Any] = {"kind": "compute#machineType", "id": str(n), "description": "8 vCPUs, 32 GB RAM",
                                   "zone": zone, "selfLink": f"https://www.googleapis.com/{zone}/{n}"}  # fmt: skip
            if n < len(gpus):
                name, cpus, mem, card, count, disks = gpus[n]
                row["accelerators"] = [{"guestAcceleratorType": card, "guestAcceleratorCount": count}]
                if disks:
                    row["bundledLocalSsds"] = {"defaultInterface": "NVME", "partitionCount": disks}
            elif n < len(gpus) + 5:
                cpus = 4 << (n - len(gpus))
                name, mem = f"n1-standard-{cpus}", int(cpus * 3.75)
            flat.append((f"zones/{zone}", row | {"name": name, "guestCpus": cpus, "memoryMb": mem * 1024}))
    pages = []
    for at in range(0, len(flat), MACHINES_A_PAGE):
        items: dict[str, Any] = {f"zones/{zone}": {"warning": {"code": "NO_RESULTS_ON_PAGE"}} for zone in zones()}
        for scope, row in flat[at : at + MACHINES_A_PAGE]:
            if "warning" in items[scope]:
                items[scope] = {"machineTypes": []}
            items[scope]["machineTypes"].append(row)
        out: dict[str, Any] = {"items": items}
        if at + MACHINES_A_PAGE < len(flat):
            out["nextPageToken"] = str(len(pages) + 1)
        pages.append(json.dumps(out).encode())
    return pages


@cache
def zones() -> list[str]:
    return [f"{region}-{letter}" for region in gcp_regions() for letter in "abc"][:GCP_ZONES]


@cache
def accelerators() -> bytes:
    rows = [
        {"name": "nvidia-tesla-t4", "maximumCardsPerInstance": 4},
        {"name": "nvidia-tesla-v100", "maximumCardsPerInstance": 8},
    ]
    return json.dumps({"items": {f"zones/{zone}": {"acceleratorTypes": rows} for zone in zones()[::3]}}).encode()


def gcp(path: str, query: dict[str, str], body: bytes, headers: Any) -> tuple[bytes, str]:
    page = int(query.get("pageToken") or 0)
    if path.endswith("/skus"):
        return sku_page(page), "application/json"
    return (machine_pages()[page] if path.endswith("machineTypes") else accelerators()), "application/json"


# ------------------------------------------------------------------------------------------------------------- Azure
@cache
def azure_regions() -> list[str]:
    text = (ROOT / "pricing" / "sources" / "azure_regions.csv").read_text(encoding="utf-8")
    return text.split()[1:][:AZURE_REGIONS]


@cache
def azure_page(page: int, narrowed: bool) -> bytes:
    """1,000 rows of a region, one in twenty-five of a GPU size; REGION stands for the region's name."""
    from pricing.instances import instance_types

    sizes = [name for cloud, name in instance_types() if cloud == "azure"]
    rows = []
    for n in range(AZURE_ROWS):
        gpu = narrowed or n % 25 == 0
        at = page * AZURE_ROWS + n if narrowed else (page * AZURE_ROWS + n) // 25
        size = sizes[at // 8 % len(sizes)] if gpu else f"Standard_D{n}s_v5"
        variant = at % 8 if gpu else n % 8
        if gpu and at >= 8 * len(sizes):
            size = f"Standard_D{at}s_v5"
        spot, windows, low = variant in (1, 3), variant in (2, 3, 5), variant in (4, 5)
        name = size.removeprefix("Standard_").replace("_", " ") + (" Spot" if spot else " Low Priority" if low else "")
        price = round(1.0 + at % 97 * 0.37 + (0.5 if windows else 0.0), 4) * (0.3 if spot else 1.0)
        rows.append({
            "currencyCode": "USD", "tierMinimumUnits": 0.0,
            "retailPrice": round(price, 6), "unitPrice": round(price, 6),
            "armRegionName": "REGION", "location": "REGION", "effectiveStartDate": "2026-09-01T00:00:00Z",
            "meterId": f"{at:08x}-0000-4000-8000-{n:012x}", "meterName": name, "productId": "DZH318Z0BQ35",
            "skuId": f"DZH318Z0BQ35/{n:04X}",
            "productName": "Virtual Machines N Series" + (" Windows" if windows else ""),
            "skuName": name, "serviceName": "Virtual Machines", "serviceId": "DZH313Z7MMC8", "serviceFamily": "Compute",
            "unitOfMeasure": "1 Hour", "type": "Reservation" if variant >= 6 else "Consumption",
            "isPrimaryMeterRegion": True, "armSkuName": size,
        })  # fmt: skip
    return json.dumps({"BillingCurrency": "USD", "Items": rows, "NextPageLink": "LINK", "Count": len(rows)}).encode()


def azure(path: str, query: dict[str, str], narrowed: bool, base: str) -> tuple[bytes, str]:
    asked = query.get("$filter", "")
    match = re.search(r"armRegionName eq '([^']*)'", asked)
    if not match or match[1] not in azure_regions():
        return b'{"Items": [], "NextPageLink": null, "Count": 0}', "application/json"
    narrow = narrowed and "contains" in asked
    page, pages = int(query.get("$skip", "0")) // AZURE_ROWS, 1 if narrow else AZURE_PAGES
    link = f'"{base}{path}?$filter={quote(asked)}&$skip={(page + 1) * AZURE_ROWS}"' if page + 1 < pages else "null"
    return (
        azure_page(page, narrow).replace(b"REGION", match[1].encode()).replace(b'"LINK"', link.encode()),
        "application/json",
    )


# ------------------------------------------------------------------------------------------------------------ server
def serve(latency_s: float, narrowed: bool) -> None:
    """Serves all APIs on three ports until standard input closes; prints the ports as JSON."""

    def handler(answer: Callable[..., tuple[bytes, str]], name: str) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                time.sleep(latency_s)
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                if parts.path.endswith("spot-advisor-data.json"):
                    reply, kind = advisor(), "application/json"
                elif name == "azure":
                    base = f"http://127.0.0.1:{self.server.server_address[1]}"
                    reply, kind = azure(parts.path, query, narrowed, base)
                else:
                    reply, kind = answer(parts.path, query, body, self.headers)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            do_POST = do_GET  # noqa: N815

        return Handler

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    for page in range(SKU_PAGES):
        sku_page(page)
    machine_pages()
    for page in range(1 if narrowed else AZURE_PAGES):
        azure_page(page, narrowed)
    ports = {}
    for name, answer in (("aws", aws), ("gcp", gcp), ("azure", azure)):
        server = Server(("127.0.0.1", 0), handler(answer, name))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ports[name] = server.server_address[1]
    print(json.dumps(ports), flush=True)
    sys.stdin.read()


READ = """
import json, statistics, sys, time
from datetime import UTC, datetime
from pricing.offers import current_offers
from pricing.store import Store
store, now, took = Store(sys.argv[1] + "/prices.db"), datetime(2026, 9, 15, 12, tzinfo=UTC), []
for _ in range(21):
    began, busy = time.perf_counter(), time.process_time()
    table = current_offers(now=now, store=store)
    took.append((1000 * (time.perf_counter() - began), 1000 * (time.process_time() - busy)))
wall, cpu = zip(*took[1:])
middle = statistics.median
print(json.dumps({"offers": len(table), "first_ms": took[0][1], "cpu_ms": middle(cpu), "wall_ms": middle(wall)}))
"""  # what a plan reads, in a process of its own


def measured(environment: dict[str, str]) -> dict[str, float | int | str]:
    """One `estimator prices refresh`: wall and processor seconds, peak resident MB, exit code, its last line."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "estimator", "prices", "refresh"]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        assert run.stdout is not None
        said = run.stdout.read().decode()
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    return {
        "wall_s": round(time.perf_counter() - began, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": used.ru_maxrss // 1024,
        "written_mb": round(used.ru_oublock * 512 / 2**20, 2),
        "exit": run.returncode,
        "said": said.strip().splitlines()[-1] if said.strip() else "",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=50.0)
    parser.add_argument("--narrowed", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--limit-s", type=float, default=90.0)
    parser.add_argument("--limit-mb", type=float, default=700.0)
    parser.add_argument("--limit-read-ms", type=float, default=50.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.latency_ms / 1000, arguments.narrowed)
        return 0
    words = [sys.executable, __file__, "--serve", "--latency-ms", str(arguments.latency_ms)]
    words += ["--narrowed"] if arguments.narrowed else []
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        ports = json.loads(server.stdout.readline())
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        environment |= {
            "AWS_ENDPOINT_URL_PRICING": urls["aws"], "AWS_ENDPOINT_URL_EC2": urls["aws"],
            "AWS_ENDPOINT_URL_STS": urls["aws"],
            "ESTIMATOR_AWS_SPOT_ADVISOR_URL": f"{urls['aws']}/spot-advisor-data.json",
            "ESTIMATOR_GCP_BILLING_ENDPOINT": urls["gcp"], "ESTIMATOR_GCP_COMPUTE_ENDPOINT": urls["gcp"],
            "ESTIMATOR_GCP_PROJECT": "benchmark", "ESTIMATOR_AZURE_RETAIL_URL": f"{urls['azure']}/api/retail/prices",
            "ESTIMATOR_NOW": NOW, "ESTIMATOR_DATA_DIR": folder, "AWS_ACCESS_KEY_ID": "AKIABENCH",
            "AWS_SECRET_ACCESS_KEY": "none", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "127.0.0.1", "NO_COLOR": "1",
        }  # fmt: skip
        runs = {}
        for name in ("first", "quiet"):
            before = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
            runs[name] = measured(environment)
            after = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
            runs[name]["store_grew_mb"] = round((after - before) / 2**20, 2)
        server.stdin.close()
        read = json.loads(subprocess.check_output([sys.executable, "-c", READ, folder], env=environment, cwd=ROOT))
    if arguments.json:
        print(json.dumps({**runs, "read": read}))
    else:
        print(
            f"{'run':8}{'wall s':>8}{'cpu s':>8}{'peak MB':>9}{'written MB':>12}{'store MB':>10}{'exit':>6}  last line"
        )
        for name, run in runs.items():
            figures = f"{run['wall_s']:>8}{run['cpu_s']:>8}{run['peak_mb']:>9}{run['written_mb']:>12}"
            print(f"{name:8}{figures}{run['store_grew_mb']:>10}{run['exit']:>6}  {run['said']}")
        print(
            f"current offers for a plan: {read['offers']:,} in {read['cpu_ms']:.1f} ms of processor "
            f"(median of 20; {read['wall_ms']:.1f} ms of wall clock), the first in {read['first_ms']:.1f} ms"
        )
    worst_s, worst_mb = max(float(r["wall_s"]) for r in runs.values()), max(float(r["peak_mb"]) for r in runs.values())
    slow = float(read["cpu_ms"]) > arguments.limit_read_ms
    return 1 if worst_s > arguments.limit_s or worst_mb > arguments.limit_mb or slow else 0


if __name__ == "__main__":
    sys.exit(main())
