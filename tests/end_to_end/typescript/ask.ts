// A client of which the compiler knows every path, field and vocabulary from the OpenAPI document.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

declare const process: { argv: string[]; exit(code: number): never };

const client = createClient<paths>({ baseUrl: process.argv[2] });

const planned = await client.POST("/v1/plan", {
  body: { model: "llama3-8b", method: "lora", tokens: "50M", constraints: { gpus: ["H100:8"] }, options: { top: 1 } },
});
const cost: number | undefined = planned.data?.plans[0]?.cost_usd?.p50;

const offers = await client.GET("/v1/offers", { params: { query: { gpu: "H100*", market: "spot", limit: 3 } } });
const price: number | null | undefined = offers.data?.offers[0]?.price_usd_per_hour;

const refused = await client.POST("/v1/plan", { body: { model: "llama3-8bb", tokens: "50M" } });
const nearest: string[] | undefined = refused.error?.nearest;

// @ts-expect-error: a market that is none does not compile
void (() => client.GET("/v1/offers", { params: { query: { market: "bazaar" } } }));

console.log(JSON.stringify({ cost, price, total: offers.data?.total, nearest }));
