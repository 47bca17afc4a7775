#!/usr/bin/env node
// grpc_client.js - grpc-js, which shares no code with Google's C core, asks Tally; prints TAP.
//
//	NODE_PATH=$(tests/clients/fetch.sh) grpc_client.js PART --target HOST:PORT [options]
//
// Parts, options and what is asked are those of grpc_client.py.
"use strict";

const crypto = require("crypto");
const fs = require("fs");
const path = require("path");
const util = require("util");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const MIB = 1 << 20;
const { status } = grpc;
const { values: args, positionals: [part] } = util.parseArgs({
	allowPositionals: true,
	options: Object.fromEntries(
		["target", "partitions", "prefix", "ca", "cert", "key", "other-ca", "other-cert", "other-key"]
			.map((name) => [name, { type: "string" }])),
});
const partitions = Number(args.partitions ?? 8);
const prefix = args.prefix ?? "js";

// uint64 are strings: a number of JavaScript has 53 bits.
const shape = { keepCase: true, longs: String, enums: String, defaults: true };
const proto = {
	...grpc.loadPackageDefinition(loader.loadSync(path.join(__dirname, "../../tools/queryd/limits.proto"), shape)),
	...grpc.loadPackageDefinition(loader.loadSync(path.join(__dirname, "../../tools/queryd/health.proto"), shape)),
};
const encode = proto.proto.IngestLimits.service.ExceedsLimits.requestSerialize;

// --- TAP -----------------------------------------------------------------------------------------

let count = 0, failed = 0;

function ok(is, name, why = "")
{
	console.log(`${is ? "" : "not "}ok ${++count} - js: ${name}`);
	if (is)
		return;
	failed++;
	console.log("# " + String(why).replaceAll("\n", "\n# "));
}

function equal(got, expected, name)
{
	const a = JSON.stringify(got), b = JSON.stringify(expected);
	ok(a === b, name, `     got: ${a}\nexpected: ${b}`);
}

// The call ends with one of these status codes.
async function fails(call, codes, name)
{
	try {
		ok(false, name, "it was answered: " + JSON.stringify(await call()).slice(0, 200));
	} catch (error) {
		ok([codes].flat().includes(error.code), name, `got ${error.code}: ${error.message}`);
	}
}

// --- calls ---------------------------------------------------------------------------------------

const opened = [];

function connect(credentials = grpc.credentials.createInsecure(), options = {})
{
	const make = (Service) => {
		// Each has connections of its own: credentials must be tried, not shared.
		const client = new Service(args.target, credentials, { "grpc.use_local_subchannel_pool": 1, ...options });
		opened.push(client);
		return client;
	};
	const limits = make(proto.proto.IngestLimits);
	const unary = (client, method) => (request, how = {}) => new Promise((resolve, reject) => {
		const metadata = new grpc.Metadata();
		for (const [key, value] of how.metadata ?? [])
			metadata.set(key, value);
		client[method](request, metadata, { deadline: Date.now() + (how.timeout ?? 30000) },
			(error, answer) => error ? reject(error) : resolve(answer));
	});
	const service = (client) => ({
		exceeds: unary(client, "ExceedsLimits"),
		rates: unary(client, "UpdateRates"),
		partitions: client.GetAssignedPartitions && unary(client, "GetAssignedPartitions"),
	});
	const health = make(proto.grpc.health.v1.Health);
	return {
		limits: service(limits),
		frontend: service(make(proto.proto.IngestLimitsFrontend)),
		// Bytes as they are.
		raw: (method, data) => new Promise((resolve, reject) => {
			limits.makeUnaryRequest(method, (x) => x, (x) => x, data, { deadline: Date.now() + 30000 },
				(error, answer) => error ? reject(error) : resolve(answer));
		}),
		check: async (name = "", how = {}) => (await unary(health, "Check")({ service: name }, how)).status,
		watch: (name) => health.Watch({ service: name }, { deadline: Date.now() + 30000 }),
	};
}

const newStreams = (n, size = 100, policy = "") => Array.from({ length: n }, () => ({
	streamHash: String(crypto.randomBytes(8).readBigUInt64LE()), totalSize: String(size), ingestionPolicy: policy }));
const tenantName = () => "free-" + crypto.randomBytes(8).toString("hex");
const small = (name) => `${prefix}-small-${name}`;	// limit 5, and 3 for the policy `finance`

const byHash = (a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0;
const pairs = (answer) => answer.results.map((r) => [r.streamHash, r.reason]).sort(byHash);
const rejected = (streams, reason = 2) => streams.map((s) => [s.streamHash, reason]).sort(byHash);

// --- all -----------------------------------------------------------------------------------------

async function testHealth(c)
{
	for (const service of ["", "proto.IngestLimits", "proto.IngestLimitsFrontend"])
		equal(await c.check(service), "SERVING", `health: '${service}' is serving`);
	await fails(() => c.check("proto.Nobody"), status.NOT_FOUND, "health: an unknown service is not found");
	for (const [service, expected] of [["", "SERVING"], ["proto.IngestLimits", "SERVING"], ["proto.Nobody", "SERVICE_UNKNOWN"]]) {
		const watch = c.watch(service);
		const first = await new Promise((resolve) => watch.on("data", resolve).on("error", resolve));
		equal(first.status ?? first.message, expected, `health: a watch of '${service}' begins with its state`);
		watch.cancel();
	}
	equal(await c.check(), "SERVING", "health: a watch that was cancelled harms nobody");
}

async function testPartitions(c)
{
	const answer = (await c.limits.partitions({})).assignedPartitions;
	equal(Object.keys(answer).map(Number).sort((a, b) => a - b), [...Array(partitions).keys()],
		"partitions: all are assigned, number 0 too");
	const now = BigInt(Date.now()) * 1000000n + 1000000n;
	ok(Object.values(answer).every((t) => BigInt(t) <= now && BigInt(t) > now - 3600n * 1000000000n),
		"partitions: since when, in Unix ns", JSON.stringify(answer));
}

async function testExceeds(name, service)
{
	const tenant = tenantName(), streams = newStreams(20);
	equal(pairs(await service.exceeds({ tenant, streams })), [], name + ": new streams come in");
	equal(pairs(await service.exceeds({ tenant, streams })), [], name + ": known streams, too");
	equal(pairs(await service.exceeds({ tenant, streams: [] })), [], name + ": no streams, no results");
	const edges = ["0", "1", "9223372036854775808", "18446744073709551615"].flatMap((streamHash) =>
		["0", "1", "1099511627776"].map((totalSize) => ({ streamHash, totalSize })));
	equal(pairs(await service.exceeds({ tenant, streams: edges })), [], name + ": the smallest and the largest hash");
}

async function testLimits(name, service, tenant)
{
	const ask = (streams) => service.exceeds({ tenant, streams });
	const streams = newStreams(9);
	equal((await ask(streams)).results.length, 4, name + ": of 9 new streams, 5 come in");
	const over = new Set((await ask(streams)).results.map((r) => r.streamHash));
	equal(over.size, 4, name + ": asked again, they know which");
	const known = streams.filter((s) => !over.has(s.streamHash));
	equal(pairs(await ask(known)), [], name + ": known streams are not rejected at the limit");
	const one = newStreams(1);
	equal(pairs(await ask([...known, ...one])), rejected(one), name + ": but a new one beside them is");
	const thrice = [...one, ...one, ...one];
	equal(pairs(await ask(thrice)), rejected(thrice), name + ": a hash asked for three times has three results");
	equal((await ask(newStreams(5, 1, "finance"))).results.map((r) => r.reason), [2, 2],
		name + ": a policy with a limit has its own room");
	const other = newStreams(2, 1, "other");
	equal(pairs(await ask(other)), rejected(other), name + ": one without shares the default room");
}

async function testRates(name, service)
{
	const request = { tenant: tenantName(), streams: newStreams(10, 300000) };
	const first = (await service.rates(request)).results;
	equal(first.map((r) => r.streamHash).sort(), request.streams.map((s) => s.streamHash).sort(), name + ": each key has a rate");
	const second = Object.fromEntries((await service.rates(request)).results.map((r) => [r.streamHash, BigInt(r.rate)]));
	ok(first.every((r) => second[r.streamHash] > 0n && second[r.streamHash] >= BigInt(r.rate)),
		name + ": it grows with the bytes", JSON.stringify(first));
}

async function testRatesAreNoStreams(c)
{
	const tenant = small("rates"), keys = newStreams(10);
	await c.limits.rates({ tenant, streams: keys });
	equal((await c.limits.exceeds({ tenant, streams: newStreams(6) })).results.length, 1, "rates: keys do not count as streams");
	equal(pairs(await c.limits.exceeds({ tenant, streams: keys })), rejected(keys), "rates: and a key is no known stream");
}

async function testRefusals(c)
{
	const streams = newStreams(1), method = "/proto.IngestLimits/ExceedsLimits";
	await fails(() => c.limits.exceeds({ tenant: "", streams }), status.INVALID_ARGUMENT, "refused: no tenant");
	await fails(() => c.limits.exceeds({ tenant: "x".repeat(257), streams }), status.INVALID_ARGUMENT,
		"refused: a tenant of 257 bytes");
	await fails(() => c.limits.exceeds({ tenant: "t", streams: newStreams(1, 1, "p".repeat(257)) }), status.INVALID_ARGUMENT,
		"refused: a policy of 257 bytes");
	for (const [data, name] of [["0a056162", "cut short"], ["0a02c328", "no UTF-8"], ["0f", "no wire type"]])
		await fails(() => c.raw(method, Buffer.from(data, "hex")), [status.INVALID_ARGUMENT, status.INTERNAL],
			"refused: a message that is " + name);
	await fails(() => c.raw("/proto.IngestLimits/Nothing", Buffer.alloc(0)), status.UNIMPLEMENTED, "refused: an unknown method");
	await fails(() => c.raw("/proto.Nobody/ExceedsLimits", Buffer.alloc(0)), status.UNIMPLEMENTED, "refused: an unknown service");
	await fails(() => c.raw("/proto.IngestLimitsFrontend/GetAssignedPartitions", Buffer.alloc(0)), status.UNIMPLEMENTED,
		"refused: the front end has no GetAssignedPartitions");
	const deflate = connect(undefined, { "grpc.default_compression_algorithm": 1 });
	await fails(() => deflate.limits.exceeds({ tenant: tenantName(), streams: newStreams(100) }), status.UNIMPLEMENTED,
		"refused: another compression than gzip");
	equal(pairs(await c.limits.exceeds({ tenant: tenantName(), streams })), [], "refused: and the connection is still good");
}

async function testExtras(c)
{
	const tenant = tenantName(), streams = newStreams(500);
	const gzip = connect(undefined, { "grpc.default_compression_algorithm": 2 });
	equal(pairs(await gzip.limits.exceeds({ tenant, streams })), [], "gzip: a request is understood");
	equal(pairs(await c.limits.exceeds({ tenant, streams },
		{ metadata: [["x-scope-orgid", "1"], ["trace-bin", Buffer.from([...Array(256).keys()])]] })), [],
		"metadata of any kind is let pass");
	const unknown = Buffer.from("7a03616263f87f01", "hex");
	const data = await c.raw("/proto.IngestLimits/ExceedsLimits", Buffer.concat([unknown, encode({ tenant, streams }), unknown]));
	equal(data.length, 0, "unknown fields are let pass");
}

async function testDeadlines(c)
{
	const request = { tenant: tenantName(), streams: newStreams(1000) };
	equal(pairs(await c.limits.exceeds(request, { timeout: 20000 })), [], "deadline: one that is met");
	await fails(() => c.limits.exceeds({ tenant: tenantName(), streams: newStreams(20000) }, { timeout: 1 }),
		status.DEADLINE_EXCEEDED, "deadline: one that cannot be met");
	equal(pairs(await c.limits.exceeds(request, { timeout: 20000 })), [], "deadline: afterwards all is as before");
}

async function testSizes(c)
{
	const tenant = tenantName(), method = "/proto.IngestLimits/ExceedsLimits";
	let streams = newStreams(10000);
	equal(pairs(await c.limits.exceeds({ tenant, streams })), [], "size: 10,000 new streams in one request");
	equal(pairs(await c.limits.exceeds({ tenant, streams })), [], "size: 10,000 known ones");
	equal((await c.limits.exceeds({ tenant: small("size"), streams })).results.length, 9995,
		"size: 9,995 of them are rejected where the limit is 5");
	streams = newStreams(Math.floor(4 * MIB / 278), 100, "p".repeat(256));
	let data = encode({ tenant, streams });
	// What is missing is one unknown field: two bytes of tag, three of length.
	const pad = 4 * MIB - data.length - 5;
	data = Buffer.concat([data, Buffer.from([0xfa, 0x7f, pad & 0x7f | 0x80, pad >> 7 & 0x7f | 0x80, pad >> 14]), Buffer.alloc(pad)]);
	equal(data.length, 4 * MIB, "size: a message of 4 MiB is made");
	equal((await c.raw(method, data)).length, 0, `size: and answered (${streams.length} streams)`);
	await fails(() => c.raw(method, Buffer.concat([data, Buffer.from([0x78, 1])])), status.RESOURCE_EXHAUSTED,
		"size: two bytes more are refused");
	equal(pairs(await c.limits.exceeds({ tenant, streams: newStreams(1) })), [], "size: and the connection is still good");
}

async function testManyCalls(c)
{
	const all = await Promise.all(Array.from({ length: 200 }, (_, i) =>
		c.limits.exceeds({ tenant: `many-${i % 10}`, streams: newStreams(50) })));
	equal(all.map(pairs), Array(200).fill([]), "200 calls at once on one connection");
	const tight = await Promise.all(Array.from({ length: 200 }, () =>
		c.limits.exceeds({ tenant: small("many"), streams: newStreams(1) })));
	equal(tight.map((r) => r.results.length).reduce((a, b) => a + b), 195, "200 new streams in 200 calls at once: 5 come in");
	const each = await Promise.all(Array.from({ length: 200 }, async (_, i) =>
		pairs(await connect().limits.exceeds({ tenant: `many-${i % 10}`, streams: newStreams(5) }))));
	equal(each, Array(200).fill([]), "200 connections at once");
}

// A client that pings without calls, as long-lived ones do every 20 s.
async function testPings()
{
	const pinging = new proto.proto.IngestLimits(args.target, grpc.credentials.createInsecure(), {
		"grpc.use_local_subchannel_pool": 1, "grpc.keepalive_time_ms": 300, "grpc.keepalive_permit_without_calls": 1 });
	opened.push(pinging);
	await new Promise((resolve, reject) => pinging.waitForReady(Date.now() + 5000, (e) => e ? reject(e) : resolve()));
	const channel = pinging.getChannel();
	const changed = await new Promise((resolve) =>
		channel.watchConnectivityState(channel.getConnectivityState(false), Date.now() + 3000, (timeout) => resolve(!timeout)));
	equal([changed, channel.getConnectivityState(false)], [false, grpc.connectivityState.READY],
		"pings without calls do not cost the connection");
}

async function partAll()
{
	const c = connect();
	await testHealth(c);
	await testPartitions(c);
	for (const [name, service] of [["limits", c.limits], ["front end", c.frontend]]) {
		await testExceeds(name, service);
		await testLimits(name, service, small(name.replace(" ", "-")));
		await testRates(name + ": rates", service);
	}
	await testRatesAreNoStreams(c);
	equal(pairs(await c.limits.exceeds({ tenant: prefix + "-dry", streams: newStreams(20) })), [], "limits: a dry run rejects nobody");
	await testRefusals(c);
	await testExtras(c);
	await testDeadlines(c);
	await testSizes(c);
	await testManyCalls(c);
	await testPings();
}

// --- unserved ------------------------------------------------------------------------------------

async function partUnserved()
{
	const c = connect();
	const served = new Set(Object.keys((await c.limits.partitions({})).assignedPartitions));
	ok(served.size > 0 && served.size < partitions, "only some of the partitions are served", [...served]);
	const streams = newStreams(200);
	const isServed = (s) => served.has(String(BigInt(s.streamHash) % BigInt(partitions)));
	const ours = streams.filter(isServed), theirs = streams.filter((s) => !isServed(s));
	const tenant = tenantName();

	equal(pairs(await c.limits.exceeds({ tenant, streams: ours })), [], "unserved: what is served is answered");
	await fails(() => c.limits.exceeds({ tenant, streams: theirs }), status.UNAVAILABLE, "unserved: what is not is UNAVAILABLE");
	// A refusal changes nothing: the five places of this tenant are still free.
	await fails(() => c.limits.exceeds({ tenant: small("unserved"), streams: [...ours.slice(5, 11), theirs[0]] }), status.UNAVAILABLE,
		"unserved: one such stream makes the whole call UNAVAILABLE");
	const answer = await c.limits.exceeds({ tenant: small("unserved"), streams: ours.slice(0, 5) });
	ok(answer.results.length < 5, "unserved: and nothing of it was done", JSON.stringify(answer));
	equal(pairs(await c.frontend.exceeds({ tenant, streams })), rejected(theirs, 1),
		"unserved: the front end says failed for those streams, and for no other");
	await fails(() => c.limits.rates({ tenant, streams }), status.UNAVAILABLE, "unserved: rates are UNAVAILABLE, too");
	const rates = Object.fromEntries((await c.frontend.rates({ tenant, streams })).results.map((r) => [r.streamHash, r.rate]));
	equal([...new Set(theirs.map((s) => rates[s.streamHash] ?? "0"))], ["0"], "unserved: the front end has no rate for them");
}

// --- tls -----------------------------------------------------------------------------------------

async function partTls()
{
	const read = (name) => name ? fs.readFileSync(name) : null;
	const secure = (ca, key, cert) => connect(grpc.credentials.createSsl(read(ca), read(key), read(cert)));
	const mutual = args.cert ? "mutual TLS" : "TLS";
	const c = secure(args.ca, args.key, args.cert);

	equal(await c.check(), "SERVING", mutual + ": health");
	equal(pairs(await c.limits.exceeds({ tenant: tenantName(), streams: newStreams(1000) })), [], mutual + ": a question");
	// grpc-js goes on trying until the deadline, and says so.
	const refused = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED];
	const check = (client) => () => client.check("", { timeout: 3000 });
	await fails(check(secure(args["other-ca"], args.key, args.cert)), refused,
		mutual + ": a client that knows another authority does not trust the server");
	await fails(check(connect()), refused, mutual + ": in the clear nothing is answered");
	if (args.cert) {
		await fails(check(secure(args.ca)), refused, mutual + ": without a certificate nobody comes in");
		await fails(check(secure(args.ca, args["other-key"], args["other-cert"])), refused,
			mutual + ": nor with one of another authority");
	}
	equal(await c.check(), "SERVING", mutual + ": and the first connection is still good");
}

({ all: partAll, unserved: partUnserved, tls: partTls })[part]()
	.catch((error) => ok(false, "no call fails that should not", error.stack))
	.then(() => {
		console.log(`1..${count}`);
		opened.forEach((client) => client.close());
		process.exitCode = failed ? 1 : 0;
	});
