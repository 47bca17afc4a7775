/*
 * tenants.js - the page of all tenants, nearest to their limit first, and that of one.
 */
import { entry } from './net.js';
import { attr, bar, facts, h, keyed, mark, name, nearness, nearness_shape, notice, panel, put, show, standing, table, tenant_href, trouble } from './parts.js';
import { plot } from './plot.js';
import * as text from './text.js';

const sorts = { headroom: 'nearest to limit', streams: 'streams', rate: 'rate', bytes: 'bytes', name: 'name' };
const STEP = 100, MOST = 1000;

/* --- rows ----------------------------------------------------------------------------------- */

/* The table of tenants, here and on the page of limits. */
export function rows()
{
	const t = table([['tenant', 'wide'], ['of its share', 'use'], ['used', 'word'], ['streams', 'right'], ['share', 'right'], ['left', 'right'], ['rate', 'right minor'], ['bytes', 'right minor'], ['policies', 'right minor']]);
	t.node.classList.add('tenants', 'stack');

	function make(item)
	{
		const used = bar('of its share'), word = mark(), cells = {};
		const cell = (key, minor) => cells[key] = h(`td.number.right${minor ? '.minor' : ''}`, { 'data-label': key });
		const node = h('tr', {}, h('td.wide', {}, h('a.item.cover', { href: tenant_href(item.tenant) }, name(item.tenant)), cells.policy = h('span.of-policy')),
			h('td.use', {}, used.node), h('td.word', {}, word.node),
			cell('streams'), cell('share'), cell('left'), cell('rate', true), cell('bytes', true), cell('policies', true));
		return { node, used, word, cells };
	}

	function fill(kid, item)
	{
		const near = item.nearest, [tone, words] = nearness(near), limited = near?.used != null;
		kid.used.set(limited ? near.used : null, tone);
		kid.word.set(nearness_shape(near), tone, words);
		/* Share and left are of this bucket; streams are all. */
		put(kid.cells.policy, limited && near.streams !== item.streams ? `  ${near.policy ? text.plain(near.policy) : '(default)'}: ${text.count(near.streams)} of ${text.count(near.share)}` : '');
		put(kid.cells.streams, text.count(item.streams));
		put(kid.cells.share, limited ? text.count(near.share) : text.none);
		put(kid.cells.left, limited ? text.count(near.share - near.streams) : text.none);
		attr(kid.cells.left, 'data-tone', limited && near.share < near.streams ? tone : null);
		put(kid.cells.rate, text.per(item.rate));
		put(kid.cells.bytes, text.bytes(item.bytes));
		put(kid.cells.policies, text.count(item.policies));
	}

	return { node: t.node, set: list => keyed(t.body, list, item => item.tenant, make, fill) };
}

/* --- all ------------------------------------------------------------------------------------ */

export function tenants(query, go)
{
	const sort = sorts[query.get('sort')] ? query.get('sort') : 'headroom';
	let limit = Math.min(MOST, Math.max(STEP, Math.floor(Number(query.get('limit'))) || STEP)), asked = query.get('q') ?? '';
	const href = (s, q, l) => {
		const out = new URLSearchParams();
		if (s !== 'headroom')
			out.set('sort', s);
		if (q)
			out.set('q', q);
		if (l > STEP)
			out.set('limit', l);
		return `#/tenants${out.size ? `?${out}` : ''}`;
	};
	const path = () => {
		const out = new URLSearchParams({ sort, limit });
		if (asked)
			out.set('q', asked);
		return `/api/v1/tenants?${out}`;
	};
	let typing = null;
	const search = h('input', { type: 'search', id: 'search', placeholder: 'a part of a name  ( / )', 'aria-label': 'Search tenants', spellcheck: 'false', autocomplete: 'off', maxlength: 256, oninput() {
		clearTimeout(typing);
		typing = setTimeout(look, 200);
	}, onkeydown(e) {
		if (e.key === 'Enter')
			look();
	} });
	search.value = asked;

	function look()
	{
		clearTimeout(typing);
		/* More than 256 bytes is in no name. */
		if (asked === search.value || new TextEncoder().encode(search.value).length > 256)
			return;
		asked = search.value;
		limit = STEP;
		go(href(sort, asked, limit), true);
		for (const link of order.children)
			link.href = href(link.dataset.sort, asked, STEP);
	}

	const order = h('nav.order', { 'aria-label': 'Order' }, Object.entries(sorts).map(([s, words]) =>
		h('a', { href: href(s, asked, STEP), 'data-sort': s, 'aria-current': s === sort ? 'true' : null }, words)));
	const warn = notice(), part = notice(), list = rows(), foot = h('p.dim'), more = h('button.quiet', { type: 'button', hidden: true, onclick() {
		limit = Math.min(MOST, limit + 200);
		go(href(sort, asked, limit), true);
	} }, 'Show more');
	const node = h('div', {}, h('h1', {}, 'Tenants'), h('div.row.controls', {}, search, order), warn.node, part.node, list.node, h('div.row', {}, foot, more));
	let shown = null;

	return {
		title: 'Tenants', node, search,
		paths: () => [path()],
		update(now) {
			const got = entry(path());
			warn.set(got.error?.status === 403
				? 'Your token may not see this list: it needs the scope read (or admin). With read:TENANT, open that tenant by its address: #/tenants/NAME.'
				: trouble(got.json ? got : { ...got, json: shown?.json, at: shown?.at }, 'read'));
			if (got.json)
				shown = got;
			else if (!shown)
				return;
			const { tenants: found, matched, looked_at, all, as_of_ms, basis } = shown.json;
			part.set(missing(basis));
			list.set(found);
			show(more, found.length < matched && found.length < MOST);
			const of = all ? '' : ` of the ${text.count(looked_at)} with most streams`;
			put(foot, found.length === 0 ? asked ? `No tenant${of} has “${text.plain(asked)}” in its name.` : 'No tenant has an active stream.'
				: `${text.count(found.length)} of ${text.plural(matched, 'tenant')}${of}, as of ${text.clock(as_of_ms)}.`);
		},
	};
}

/* --- one ------------------------------------------------------------------------------------ */

/* What an answer does not have in it. */
function missing(basis)
{
	if (basis.complete)
		return '';
	const ready = `Only ${basis.answered} of ${basis.owned} partitions are ready`;
	if (!basis.partial)
		return `${ready}: these numbers are theirs alone.`;
	const to = basis.counted_to_ms ? `, up to ${text.clock(basis.counted_to_ms)}` : '';
	return `${ready}. ${basis.partial} more ${basis.partial === 1 ? 'is' : 'are'} replaying: what was counted there so far${to}, is in these numbers; more is to come.`;
}

/* What `tallyctl explain` says of a bucket. */
function explained(bucket, limits, basis)
{
	const lines = [];
	const all = basis.partitions || 1;
	if (bucket.limit === null)
		lines.push('There is no limit, so no share.');
	else if (limits.scope === 'partition')
		lines.push(`Share: ${text.count(bucket.limit)} / ${all}${bucket.limit % all ? ', rounded up,' : ''} = ${text.count(Math.ceil(bucket.limit / all))} in each of the ${basis.owned} partitions of this instance.`);
	else
		lines.push(`Share: ${text.count(bucket.limit)} × ${basis.owned} owned / ${all} partitions${bucket.limit * basis.owned % all ? ', rounded up,' : ''} = ${text.count(bucket.share)}.`);
	if (!basis.answered)
		lines.push(`Nobody decides here: none of the ${text.plural(basis.owned, 'partition')} is ready.`);
	else if (bucket.headroom === null)
		lines.push('The next new stream is let in: there is no limit.');
	else if (!bucket.headroom && limits.dry_run)
		lines.push(`The next new stream is let in, and counted as a would-be rejection: ${text.count(bucket.streams)} active streams fill the share of ${text.count(bucket.share)}, but it is a dry run.`);
	else if (!bucket.headroom && bucket.streams < bucket.share)
		lines.push('The next new stream is not let in now: partitions are being counted anew, and what others may hold is kept free.');
	else if (!bucket.headroom)
		lines.push(`The next new stream is rejected: ${text.count(bucket.streams)} active streams fill the share of ${text.count(bucket.share)}. There is room again when ${text.count(bucket.streams - bucket.share + 1)} of them expired.`);
	else if (limits.scope === 'partition')
		lines.push(`The next new stream is let in where its partition has room: ${text.count(bucket.headroom)} more fit, all partitions together.`);
	else
		lines.push(`The next new stream is let in: ${text.count(bucket.headroom)} more fit.`);
	return lines.join(' ');
}

function source(bucket, limits, without_file)
{
	if (limits.version === '0')
		return 'no limits have been published';
	if (bucket.policy)
		return 'policy_override_limits of its entry';
	if (!limits.is_default)
		return 'its entry in the limits file';
	if (without_file)
		return 'the default (limits.file is not set)';
	return limits.listed ? 'the default (its entry says nothing of it)' : 'the default (it has no entry)';
}

function bucket_row(b)
{
	const used = bar('of its share'), word = mark(), cells = ['limit', 'share', 'streams', 'headroom'].map(key => h(`td.number.right${key === 'limit' ? '.minor' : ''}`, { 'data-label': key === 'headroom' ? 'room' : key }));
	const from = h('td.wide.dim.minor');
	const node = h('tr', {}, h('td', {}, name(b.policy)), h('td.use', {}, used.node), h('td.word', {}, word.node), ...cells, from);
	return { node, used, word, cells, from };
}

const seen_row = s => {
	const cells = [h('td.number'), h('td.number.right'), h('td'), h('td.number.right.minor'), h('td.number.right.minor')];
	return { node: h('tr', {}, ...cells), cells, policy: null };
};

export function tenant(string)
{
	const base = `/api/v1/tenants/${encodeURIComponent(string)}`;
	const path = { usage: base, limits: `${base}/limits`, streams: `${base}/streams?sort=newest&limit=20` };
	/* A browser takes these for a directory, however they are written. */
	const unaskable = string === '.' || string === '..' || string === '';
	const warn = notice(), part = notice(), strip = facts(), buckets = table([['bucket'], ['of its share', 'use'], ['used', 'word'], ['limit', 'right minor'], ['share', 'right'], ['streams', 'right'], ['headroom', 'right'], ['from', 'wide minor']]);
	buckets.node.classList.add('stack');
	const sentences = h('div.sentences'), limits_warn = notice(), foreign = h('p.dim');
	const seen = plot({ label: 'streams, by the minute they were seen last', format: text.short, bars: true, whole: true });
	const flow = plot({ label: 'bytes per second, by minute', format: text.per, binary: true });
	const policies = table([['policy', 'wide'], ['streams', 'right'], ['bytes', 'right']]), newest = table([['seen', ''], ['hash', 'right'], ['policy', 'wide'], ['partition', 'right minor'], ['rate', 'right minor']]);
	const newest_words = h('p.dim'), newest_warn = notice();
	strip.node.classList.add('strip');
	const limits_panel = panel('Limits, explained', limits_warn.node, buckets.node, sentences, foreign);
	const content = h('div', {}, strip.node, limits_panel, h('div.panels.two', {}, h('section.panel', {}, seen.node), h('section.panel', {}, flow.node)),
		h('div.panels.two.ragged', {}, panel('Policies', policies.node), panel('Streams seen last', newest_warn.node, newest.node, newest_words)));
	const node = h('div', {}, h('h1.tenant', {}, h('a.up', { href: '#/tenants', title: 'All tenants (u)' }, 'Tenants'), ' / ', name(string, 'no name')), warn.node, part.node, content);

	function usage(got, now)
	{
		const u = got.json;
		if (!u)
			return;
		const first = u.histogram.first_minute, minutes = u.histogram.streams.map((n, i) => (first + i) * 60);
		part.set(missing(u.basis));
		strip.set([
			['active streams', text.count(u.streams)], ['bytes in the window', text.bytes(u.bytes)],
			[`rate over ${u.rate_minutes} m`, text.per(u.rate)], ['window', text.duration(u.window_minutes * 60000)],
			u.basis.owned < u.basis.partitions && ['of the topic', `${u.basis.owned} of ${u.basis.partitions} partitions`],
			['as of', text.clock(u.as_of_ms)],
		]);
		seen.set(minutes, u.histogram.streams);
		/* The present minute has not gone by yet. */
		flow.set(minutes, u.histogram.bytes.map((n, i) => n / Math.max(1, Math.min(60, u.as_of_ms / 1000 - minutes[i]))));
		keyed(policies.body, u.policies, p => p.policy, p => {
			const cells = [h('td.number.right'), h('td.number.right')];
			return { node: h('tr', {}, h('td.wide', {}, name(p.policy)), ...cells), cells };
		}, (kid, p) => {
			put(kid.cells[0], text.count(p.streams));
			put(kid.cells[1], text.bytes(p.bytes));
		});
	}

	function limits(got)
	{
		limits_warn.set(trouble(got, `read or read:${text.plain(string)}`));
		show(buckets.node, Boolean(got.json));
		if (!got.json)
			return;
		const { buckets: list, limits: l, basis } = got.json;
		const without = entry('/api/v1/instance').json?.limits_state === 'none';
		keyed(buckets.body, list, b => b.policy, bucket_row, (kid, b) => {
			const near = { used: b.share === null ? null : b.share ? b.streams / b.share : 1, dry_run: l.dry_run }, [tone, words] = nearness(near);
			kid.used.set(near.used, tone);
			kid.word.set(nearness_shape(near), tone, words);
			[b.limit, b.share, b.streams, b.headroom].forEach((v, i) => put(kid.cells[i], v === null ? 'none' : text.count(v)));
			put(kid.from, source(b, l, without));
		});
		keyed(sentences, list, b => b.policy, b => {
			const words = h('span');
			return { node: h('p', {}, list.length > 1 && b.policy ? h('strong', {}, name(b.policy), ' ') : null, words), words };
		}, (kid, b) => put(kid.words, explained(b, l, basis)));
		put(foreign, [
			l.dry_run ? 'Dry run: nothing is rejected, would-be rejections are counted.' : '',
			basis.answered && basis.answered < basis.owned ? `Streams of the ${text.plural(basis.owned - basis.answered, 'partition')} not ready are not decided: failed, which clients let pass.` : '',
			basis.owned < basis.partitions ? `Streams of the other ${text.plural(basis.partitions - basis.owned, 'partition')} are decided by other instances.` : '',
		].filter(Boolean).join(' '));
	}

	function last_seen(got, now)
	{
		newest_warn.set(got.error?.status === 404 ? '' : trouble(got, `read or read:${text.plain(string)}`));
		if (!got.json)
			return;
		keyed(newest.body, got.json.streams, s => s.hash, seen_row, (kid, s) => {
			put(kid.cells[0], text.ago(Math.max(0, now - s.last_seen_ms)));
			put(kid.cells[1], s.hash);
			if (kid.policy !== s.policy)
				kid.cells[2].replaceChildren(name(s.policy));
			kid.policy = s.policy;
			put(kid.cells[3], String(s.partition));
			put(kid.cells[4], text.per(s.rate));
		});
		put(newest_words, got.json.all ? '' : `Of the first ${text.count(got.json.looked_at)} streams by partition and hash: it has more, and they are in no order by time.`);
	}

	return {
		title: text.plain(string), node, up: '#/tenants',
		paths: () => unaskable ? [] : Object.values(path),
		update(now) {
			const got = entry(path.usage);
			warn.set(unaskable ? 'No browser can ask for a tenant of this name: it is a directory to all of them. tallyctl can.'
				: trouble(got, `read or read:${text.plain(string)}`));
			show(content, Boolean(got.json));
			show(part.node, false);
			usage(got, now);
			limits(entry(path.limits));
			last_seen(entry(path.streams), now);
			/* Nobody has heard of it, and it has limits all the same. */
			if (!got.json && entry(path.limits).json && got.error?.status === 404) {
				show(content, true);
				for (const kid of content.children)
					show(kid, kid === limits_panel);
			} else {
				for (const kid of content.children)
					show(kid, true);
			}
		},
	};
}
