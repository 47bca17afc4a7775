/*
 * text.js - numbers, times and names as people read them.  Pure: no document, no clock.
 */

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

export const none = '–';

export const count = n => n == null ? none : whole.format(n);

/* Three digits and a letter: 12.3k. */
export function short(n)
{
	if (n == null)
		return none;
	let i = 0;
	for (; Math.abs(n) >= (i ? 999.5 : 99999.5) && i < 5; i++)
		n /= 1000;
	return digits(n, i > 0) + ['', 'k', 'M', 'G', 'T', 'P'][i];
}

const digits = (n, fraction) =>
	n === 0 || (!fraction && Number.isInteger(n)) ? whole.format(n)
		: n.toFixed(Math.abs(n) >= 99.95 ? 0 : Math.abs(n) >= 9.995 ? 1 : 2);

/* 1.25 MiB */
export function bytes(n)
{
	if (n == null)
		return none;
	let i = 0;
	for (; n >= 1000 && i < 5; i++)
		n /= 1024;
	return `${i ? digits(n, true) : Math.round(n)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][i]}`;
}

export const per = n => n == null ? none : `${bytes(n)}/s`;

/* Two units at most: 3 m 12 s. */
export function duration(ms)
{
	if (ms == null)
		return none;
	if (ms < 1000)
		return `${Math.max(0, Math.round(ms))} ms`;
	const s = Math.round(ms / 1000), pair = (a, x, b, y) => y ? `${a} ${x} ${y} ${b}` : `${a} ${x}`;
	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return pair(Math.floor(s / 60), 'm', 's', s % 60);
	if (s < 86400)
		return pair(Math.floor(s / 3600), 'h', 'm', Math.floor(s % 3600 / 60));
	return pair(Math.floor(s / 86400), 'd', 'h', Math.floor(s % 86400 / 3600));
}

export const ago = ms => ms == null ? none : ms < 1000 ? 'now' : `${duration(ms)} ago`;

const two = n => String(n).padStart(2, '0');

export function clock(ms)
{
	const t = new Date(ms);
	return `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
}

/* The day too, when it is not that of `now`. */
export function moment(ms, now)
{
	if (ms == null)
		return none;
	const t = new Date(ms);
	const day = `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
	return new Date(now).toDateString() === t.toDateString() ? clock(ms) : `${day} ${clock(ms)}`;
}

export const percent = ratio => ratio == null ? none
	: `${(ratio * 100).toFixed(ratio >= 0.9995 || ratio === 0 ? 0 : 1)} %`;

/* Of what may not be passed: a little is not nothing, and not quite is not full. */
export const part = ratio => ratio > 0 && ratio < 0.0005 ? '< 0.1 %' : ratio >= 0.9995 && ratio < 1 ? '99.9 %' : percent(ratio);

export const plural = (n, word, words = `${word}s`) => `${count(n)} ${n === 1 ? word : words}`;

/*
 * Names are chosen by strangers.  What cannot be seen, or turns text round, is shown as what
 * it is: pieces of { text, hidden }.
 */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\u115f\u1160\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]|^ | $|(?<= ) |[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/gu;

const escape = c => `\\u${c.codePointAt(0).toString(16).padStart(4, '0')}`;

export function pieces(name)
{
	const out = [];
	let at = 0;
	for (const m of name.matchAll(unseen)) {
		if (m.index > at)
			out.push({ text: name.slice(at, m.index), hidden: false });
		out.push({ text: escape(m[0]), hidden: true });
		at = m.index + m[0].length;
	}
	if (at < name.length)
		out.push({ text: name.slice(at), hidden: false });
	return out;
}

export const plain = name => pieces(name).map(p => p.text).join('');
