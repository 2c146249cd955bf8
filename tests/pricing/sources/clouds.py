"""The clouds' price APIs over the tests' small world: each function answers one request as the real service would."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape

from pricing.sources.base import SourceSettings, settings_from_environment
from tests.pricing.sources import world_aws, world_azure, world_gcp
from tests.pricing.sources.loopback import Reply, Request, Wire, as_json
from tests.pricing.sources.world import AS_OF

_JSON11 = "application/x-amz-json-1.1"


def signed_region(request: Request) -> str:
    """The region in the credential scope of a signed request."""
    match = re.search(r"Credential=[^/]+/\d{8}/([^/]+)/", request.headers.get("authorization", ""))
    return match[1] if match else ""


# --------------------------------------------------------------------------------------------------------------- AWS
def aws_refusal(code: str, message: str = "refused", status: int = 400) -> Reply:
    """An error of the price list API."""
    return as_json({"__type": code, "message": message}, status, _JSON11)


def ec2_refusal(code: str, status: int = 400, **headers: str) -> Reply:
    """An error of EC2."""
    errors = f"<Errors><Error><Code>{code}</Code><Message>no</Message></Error></Errors>"
    text = f"<Response>{errors}<RequestID>r</RequestID></Response>"
    return Reply(text.encode(), status, "text/xml;charset=UTF-8", headers)


def asked_region(request: Request) -> str:
    """The region that a GetProducts request filters by."""
    filters = json.loads(request.body or b"{}").get("Filters", [])
    return next((f["Value"] for f in filters if f["Field"] == "regionCode"), "")


def get_products(request: Request, page: int = 5) -> Reply:
    """pricing:GetProducts with TERM_MATCH and ANY_OF filters, five products a page, each a JSON string."""
    asked = json.loads(request.body)
    if request.headers.get("x-amz-target") != "AWSPriceListService.GetProducts" or not signed_region(request):
        return aws_refusal("MissingAuthenticationTokenException")

    def wanted(product: dict[str, Any]) -> bool:
        attributes = product["product"]["attributes"]
        return all(
            attributes.get(f["Field"]) in (f["Value"].split(",") if f["Type"] == "ANY_OF" else [f["Value"]])
            for f in asked.get("Filters", [])
        )

    found = [product for product in world_aws.PRODUCTS if wanted(product)]
    at = int(asked.get("NextToken", "0"))
    out: dict[str, Any] = {
        "FormatVersion": "aws_v1",
        "PriceList": [json.dumps(product) for product in found[at : at + page]],
    }
    if at + page < len(found):
        out["NextToken"] = str(at + page)
    return as_json(out, kind=_JSON11)


def _xml(name: str, value: object) -> str:
    if isinstance(value, dict):
        inner = "".join(_xml(key, each) for key, each in value.items())
    elif isinstance(value, list):
        rows = (
            "".join(_xml(k, v) for k, v in each.items()) if isinstance(each, dict) else escape(str(each))
            for each in value
        )
        inner = "".join(f"<item>{row}</item>" for row in rows)
    else:
        inner = str(value).lower() if isinstance(value, bool) else escape(str(value))
    return f"<{name}>{inner}</{name}>"


def ec2_reply(action: str, fields: dict[str, object]) -> Reply:
    """A good reply of EC2."""
    names = {
        "Regions": "regionInfo",
        "InstanceTypes": "instanceTypeSet",
        "InstanceTypeOfferings": "instanceTypeOfferingSet",
        "SpotPriceHistory": "spotPriceHistorySet",
    }

    def lower(value: object) -> object:
        if isinstance(value, dict):
            return {key[:1].lower() + key[1:]: lower(each) for key, each in value.items()}
        return [lower(each) for each in value] if isinstance(value, list) else value

    inner = "".join(_xml(names.get(key, key[:1].lower() + key[1:]), lower(value)) for key, value in fields.items())
    text = f'<{action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>{inner}</{action}Response>'
    return Reply(text.encode(), 200, "text/xml;charset=UTF-8")


def ec2(request: Request) -> Reply:
    """EC2: regions, instance types, offerings by region, spot price history in pages (the first may be empty)."""
    form, region = request.form, signed_region(request)
    if not region:
        return ec2_refusal("MissingAuthenticationToken", 403)
    action = form["Action"]
    if action == "DescribeRegions":
        rows = [{"RegionName": name, "OptInStatus": status} for name, status in world_aws.AWS_REGIONS.items()]
        return ec2_reply(action, {"Regions": rows})
    names = {value for key, value in form.items() if key.startswith("InstanceType.")}
    if action == "DescribeInstanceTypes":
        kinds = [kind for kind in world_aws.INSTANCE_TYPES if not names or kind["InstanceType"] in names]
        return ec2_reply(action, {"InstanceTypes": kinds})
    if action == "DescribeInstanceTypeOfferings":
        listed = {p["product"]["attributes"].get("instanceType"): p for p in world_aws.PRODUCTS
                  if p["product"]["attributes"].get("regionCode") == region}  # fmt: skip
        spot = {row["InstanceType"] for page in world_aws.SPOT.get(region, []) for row in page}
        known = {kind["InstanceType"] for kind in world_aws.INSTANCE_TYPES}
        offered = sorted({name for name in {*listed, *spot} if name in known})
        return ec2_reply(action, {"InstanceTypeOfferings": [{"InstanceType": n, "Location": region} for n in offered]})
    if action == "DescribeSpotPriceHistory":
        pages = world_aws.SPOT.get(region, [[]])
        at = int(form.get("NextToken") or 0)
        descriptions = {value for key, value in form.items() if key.startswith("ProductDescription.")}
        rows = [row for row in pages[at] if row["InstanceType"] in names and row["ProductDescription"] in descriptions]
        return ec2_reply(action, {"SpotPriceHistory": rows, "NextToken": str(at + 1) if at + 1 < len(pages) else ""})
    return ec2_refusal("UnsupportedOperation")


def sts(request: Request) -> Reply:
    """STS knows everybody."""
    text = (
        '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Account>1'
        "</Account></GetCallerIdentityResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>"
        "</GetCallerIdentityResponse>"
    )
    return Reply(text.encode(), 200, "text/xml")


_CSV_OF = {
    "instanceType": "Instance Type",
    "instanceFamily": "Instance Family",
    "operatingSystem": "Operating System",
    "tenancy": "Tenancy",
    "capacitystatus": "CapacityStatus",
    "preInstalledSw": "Pre Installed S/W",
    "marketoption": "MarketOption",
    "operation": "operation",
    "usagetype": "usageType",
    "licenseModel": "License Model",
    "location": "Location",
    "locationType": "Location Type",
    "regionCode": "Region Code",
    "vcpu": "vCPU",
    "gpu": "GPU",
}
_CSV_HEAD = ["SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate", "StartingRange",
             "EndingRange", "Unit", "PricePerUnit", "Currency", "Product Family", "serviceCode",
             *_CSV_OF.values()]  # fmt: skip


def offer_file(region: str, products: Sequence[dict[str, Any]] | None = None) -> bytes:
    """The offer file of a region as CSV, five lines before the header; "NA" software is sometimes left empty."""
    out = io.StringIO()
    write = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow
    for line in (("FormatVersion", "v1.0"), ("Disclaimer", "made up, for a test"), ("Publication Date", "2026-09-10")):
        write(line)
    for line in (("Version", "20260910195514"), ("OfferCode", "AmazonEC2"), _CSV_HEAD):
        write(line)
    for n, product in enumerate(world_aws.PRODUCTS if products is None else products):
        attributes = product["product"]["attributes"]
        if attributes.get("regionCode") not in (region, ""):
            continue
        for kind, terms in product["terms"].items():
            for term in terms.values():
                for code, dimension in term["priceDimensions"].items():
                    for currency, price in dimension["pricePerUnit"].items():
                        row = dict.fromkeys(_CSV_HEAD, "")
                        row |= {column: attributes.get(name, "") for name, column in _CSV_OF.items()}
                        if row["Pre Installed S/W"] == "NA" and n % 2:
                            row["Pre Installed S/W"] = ""
                        row |= {
                            "SKU": product["product"]["sku"],
                            "OfferTermCode": term["offerTermCode"],
                            "RateCode": code,
                            "TermType": kind,
                            "PriceDescription": dimension.get("description", ""),
                            "EffectiveDate": term["effectiveDate"][:10],
                            "StartingRange": dimension.get("beginRange", ""),
                            "EndingRange": dimension.get("endRange", ""),
                            "Unit": dimension["unit"],
                            "PricePerUnit": price,
                            "Currency": currency,
                            "Product Family": product["product"]["productFamily"],
                            "serviceCode": "AmazonEC2",
                        }
                        write([row[name] for name in _CSV_HEAD])
    return out.getvalue().encode()


def bulk(request: Request) -> Reply:
    """The public offer files: the region index and a CSV a region."""
    root = "/offers/v1.0/aws/AmazonEC2/current/"
    name = request.path.removeprefix(root)
    if name == "region_index.json":
        return as_json({"regions": {r: {"regionCode": r} for r in (*world_aws.AWS_REGIONS, "us-west-2-lax-1")}})
    region = name.removesuffix("/index.csv")
    return Reply(offer_file(region), 200, "text/csv")


def advisor(request: Request) -> Reply:
    """The Spot Advisor's file."""
    return as_json(world_aws.ADVISOR)


# --------------------------------------------------------------------------------------------------------------- GCP
def billing(request: Request) -> Reply:
    """The catalogue: on-demand SKUs on page 1, spot SKUs on page 2."""
    if request.path != "/v1/services/6F81-5844-456A/skus":
        return as_json({"error": {"code": 404, "message": "not found", "status": "NOT_FOUND"}}, 404)
    if request.query.get("pageToken"):
        return as_json({"skus": world_gcp.SKUS_SPOT, "nextPageToken": ""})
    return as_json({"skus": world_gcp.SKUS_ON_DEMAND, "nextPageToken": "two"})


def compute(request: Request) -> Reply:
    """Aggregated lists of machine and accelerator types, machines in two pages."""
    if request.path.endswith("/projects/test-project/aggregated/acceleratorTypes"):
        return as_json({"kind": "compute#acceleratorTypeAggregatedList", "items": world_gcp.ACCELERATORS})
    if not request.path.endswith("/projects/test-project/aggregated/machineTypes"):
        return as_json({"error": {"code": 404, "message": "not found"}}, 404)
    scopes = list(world_gcp.MACHINES.items())
    half = len(scopes) // 2
    if request.query.get("pageToken"):
        return as_json({"items": dict(scopes[half:])})
    return as_json({"items": dict(scopes[:half]), "nextPageToken": "two"})


# ------------------------------------------------------------------------------------------------------------- Azure
def azure_region(request: Request) -> str:
    """The region that a question about retail prices filters by, "" for all."""
    match = re.search(r"armRegionName eq '([^']*)'", request.query.get("$filter", ""))
    return match[1] if match else ""


def retail(request: Request, page: int = 10) -> Reply:
    """Retail prices: eq, contains() and `and`; ten items a page; the next link is absolute."""
    rows = world_azure.ITEMS
    for term in request.query.get("$filter", "").split(" and "):
        equal = re.fullmatch(r"(\w+) eq '([^']*)'", term)
        within = re.fullmatch(r"contains\((\w+), ?'([^']*)'\)", term)
        if equal:
            name = {"priceType": "type"}.get(equal[1], equal[1])
            rows = [row for row in rows if row[name] == equal[2]]
        elif within:
            rows = [row for row in rows if within[2] in row[within[1]]]
        else:
            return as_json({"Error": {"Code": "BadRequest", "Message": "Invalid OData parameters supplied"}}, 400)
    at = int(request.query.get("$skip", "0"))
    query = {**request.query, "$skip": str(at + page)}
    link = (
        f"{request.base}{request.path}?{urlencode(query, safe='$', quote_via=quote)}" if at + page < len(rows) else None
    )
    part = rows[at : at + page]
    return as_json({"BillingCurrency": "USD", "Items": part, "NextPageLink": link, "Count": len(part)})


# ------------------------------------------------------------------------------------------------------------ the sky
@dataclass(frozen=True)
class Clouds:
    """All endpoints at once, and the settings that lead there."""

    pricing: Wire
    ec2: Wire
    sts: Wire
    bulk: Wire
    advisor: Wire
    billing: Wire
    compute: Wire
    azure: Wire

    def settings(self, *, credentials: bool = True, **changes: Any) -> SourceSettings:
        """Settings of a refresh against these servers: impatient, so that no test waits long."""
        environ = {
            "AWS_ENDPOINT_URL_PRICING": self.pricing.url,
            "AWS_ENDPOINT_URL_EC2": self.ec2.url,
            "AWS_ENDPOINT_URL_STS": self.sts.url,
            "ESTIMATOR_AWS_BULK_URL": self.bulk.url,
            "ESTIMATOR_AWS_SPOT_ADVISOR_URL": f"{self.advisor.url}/spot-advisor-data.json",
            "ESTIMATOR_GCP_BILLING_ENDPOINT": self.billing.url,
            "ESTIMATOR_GCP_COMPUTE_ENDPOINT": self.compute.url,
            "ESTIMATOR_GCP_PROJECT": "test-project",
            "ESTIMATOR_AZURE_RETAIL_URL": f"{self.azure.url}/api/retail/prices",
        }
        if credentials:
            environ |= {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "not-a-secret"}
        quick: dict[str, Any] = {
            "backoff_cap_s": 0.02,
            "read_timeout_s": 0.5,
            "connect_timeout_s": 1.0,
            "deadline_s": 8.0,
            "max_body_bytes": 4 * 2**20,
            "max_pages": 30,
        }
        return settings_from_environment(environ, lambda: AS_OF, **{**quick, **changes})


@contextmanager
def sky() -> Iterator[Clouds]:
    """The clouds, up."""
    answers = (get_products, ec2, sts, bulk, advisor, billing, compute, retail)
    with ExitStack() as stack:
        yield Clouds(*(stack.enter_context(Wire(answer)) for answer in answers))
