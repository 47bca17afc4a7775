/*
 * page.mjs - what is expected of the web page: run by 10-the-page.sh.
 */
import { asked, base, end, eventually, FOREIGN, foreign_tab, is, ok, say, shell, shot, start, tab, wrong } from './browser.mjs';

const text = (page, selector) => page.locator(selector).first().innerText();
const texts = (page, selector) => page.locator(selector).allInnerTexts();
const card = n => `.card[href="#/partitions/${n}"]`;
const fact = (page, label, within = 'main') => page.locator(`${within} .facts > div`, { has: page.locator(`dt:text-is("${label}")`) }).locator('dd').innerText();
const api = async path => (await fetch(base + path)).json();
const names = page => texts(page, '.tenants .name');
const AWAY = ['ERR_FAILED', 'ERR_CONNECTION_REFUSED', 'ERR_EMPTY_RESPONSE', 'ERR_CONNECTION_RESET'];

/* --- partitions: states, live ------------------------------------------------------------------ */

async function partitions()
{
	const page = await tab();
	await page.goto(`${base}/`);
	await eventually('all partitions are shown as ready, in words', () => texts(page, '.card .mark'), t => t.join() === 'ready,ready,ready,ready');
	is(await page.locator('.card .mark .shape').count(), 4, '... and with a shape each');
	is(await text(page, '#contact'), 'live', 'it says that it is live');
	is(await page.title(), 'Partitions – Tally a', 'the title names the instance');
	const streams = await fact(page, 'streams');
	await shell('produce --records 300 --tenants 3 --tenant-prefix more- --streams 100 --popularity each');
	await eventually('numbers move without a reload', () => fact(page, 'streams'), t => t !== streams);
	is(await page.evaluate(() => performance.getEntriesByType('navigation').length), 1, '... and it was none');
	await shell('kill_worker 1');
	await eventually('a death is shown, with its signal', () => text(page, card(1)), t => /died: SIGKILL/.test(t) && /restarts\s+1/.test(t));
	await eventually('... and the return', () => text(page, `${card(1)} .mark`), t => t === 'ready');
	await page.click(card(1));
	await eventually('a partition has its own page', () => text(page, 'h1'), t => /Partitions\s*\/ 1\s*ready/.test(t));
	await eventually('... with its changes of state', () => texts(page, 'tbody tr'), rows => rows.some(r => /ready\s+pending\s+exited, SIGKILL/.test(r)));
	is(await fact(page, 'last death').then(t => t.split(',')[0]), 'SIGKILL', '... and its last death');
	is(await fact(page, 'pid'), String((await api('/api/v1/partitions/1')).pid), '... and what the API says of its worker');
	await eventually('... and a plot', () => page.locator('.plot canvas').count(), n => n === 1);
	await shot(page, 'partition');
	await shell('kill_for_good 2');
	await page.goto(`${base}/#/`);
	await eventually('a partition that is given up is failed', () => text(page, `${card(2)} .mark`), t => t === 'failed');
	ok(/starts again in|died: SIGKILL/.test(await text(page, card(2))), '... with what comes next');
	await eventually('it is counted', () => fact(page, 'failed').catch(() => ''), t => t === '1');
	await shot(page, 'failed');
	await eventually('and heals by itself', () => text(page, `${card(2)} .mark`), t => t === 'ready', 60);
	await page.context().close();
}

/* What lasts too short a time to be caught: the answer is the real one, with other states. */
async function states()
{
	const page = await tab({ scheme: 'dark' });
	let progress = 0.425;
	await page.route('**/api/v1/partitions', async route => {
		const response = await route.fetch(), json = await response.json(), p = json.partitions;
		Object.assign(p[0], { state: 'pending', ready: false, phase: 'locating', lag: null });
		Object.assign(p[1], { state: 'replaying', ready: false, progress, eta_ms: 72000, records_per_sec: 124000, lag: 9123456 });
		Object.assign(p[2], { state: 'failed', ready: false, retry_in_ms: 30000, problems: 'degraded stalled', death: 'signal', death_detail: 'SIGSEGV', death_at_ms: Date.now() - 90000 });
		Object.assign(p[3], { state: 'ready', ready: false, lease_ms: -5 });
		await route.fulfill({ response, json });
	});
	await page.goto(`${base}/`);
	await eventually('each state has its word', () => texts(page, '.card .mark'), t => t.join() === 'pending,replaying,failed,lease over');
	is(new Set(await page.locator('.card .mark path').evaluateAll(all => all.map(p => p.getAttribute('d')))).size, 4, '... and a shape of its own');
	is((await text(page, card(1))).includes('42.5 %, 1 m 12 s to go'), true, 'a replay has its progress and time to go');
	ok(/rec\/s\s+124k/.test(await text(page, card(1))), '... and its rate');
	is(await page.locator(`${card(1)} [role=progressbar]`).getAttribute('aria-valuenow'), '43', '... for ears as well');
	is(await fact(page, 'ready'), '0 of 4', 'none is counted as ready');
	progress = 0.8;
	await eventually('the bar moves', () => page.locator(`${card(1)} .fill`).evaluate(n => n.style.width), w => w === '80%');
	ok((await text(page, card(2))).includes('degraded stalled'), 'problems are named');
	await shot(page, 'states');
	await page.context().close();
}

/* --- tenants: names, order, search --------------------------------------------------------------- */

const LONG = 'W'.repeat(256);
const hostile = ['<img src=x onerror=window.harmed=1>', '"><script>window.harmed=1</script>', 'bidi\u202egnp.exe', 'zero\u200bwidth \u2028line ', LONG, 'a/b?c#d%2F&e=1', 'javascript:window.harmed=1'];
const shown = name => name.replace('\u202e', '\\u202e').replace('\u200b', '\\u200b').replace('\u2028', '\\u2028').replace(/ $/, '\\u0020');

async function tenants()
{
	const page = await tab();
	await page.goto(`${base}/#/tenants`);
	await eventually('all hostile names are shown as text', () => names(page), all => hostile.every(n => all.includes(shown(n))));
	is(await page.locator('main img, main script, main iframe').count(), 0, '... and none has become markup');
	is((await names(page)).slice(0, 3).join(), 'tenant-1,tenant-2,dry', 'those nearest to their limit come first');
	await eventually('where a policy is nearest, its own streams are beside its share', () => texts(page, '.tenants tbody tr'), rows => rows.some(r => /tenant-2\s+policy-1: 110 of 60\s+full\s+200\s+60\s+-50/.test(r)));
	ok((await texts(page, '.tenants .mark')).includes('< 0.1 %'), 'a little is not nothing');
	ok((await texts(page, '.tenants th')).every(t => t.trim() !== ''), 'each column has its name');
	await shot(page, 'tenants');
	for (const name of hostile) {
		await page.goto(`${base}/#/tenants/${encodeURIComponent(name)}`);
		await eventually(`a page for ${name.slice(0, 20)}`, async () => [await text(page, 'h1'), await fact(page, 'active streams')], ([title, n]) => title.replaceAll('\n', '').includes(shown(name)) && Number(n) > 0);
	}
	ok(!(await page.title()).includes('\u202e'), 'no mark turns the title round');
	await page.goto(`${base}/#/tenants/..`);
	await eventually('a name that no browser can ask for is said so', () => text(page, '.notice:visible'), t => t.includes('No browser can ask'));
	is(await page.evaluate(() => window.harmed), undefined, 'no name has done anything');

	await page.goto(`${base}/#/tenants?sort=name`);
	await eventually('order by name', () => names(page), all => all.length > 8 && all.indexOf('dry') < all.indexOf('guest') && all.indexOf('guest') < all.indexOf('tenant-0'));
	await page.click('.order a:text-is("streams")');
	await eventually('order by streams', () => texts(page, '.tenants tbody tr td:nth-child(4)'), all => all.length > 8 && all.every((n, i) => !i || Number(all[i - 1].replaceAll(',', '')) >= Number(n.replaceAll(',', ''))));
	is(await page.evaluate(() => location.hash), '#/tenants?sort=streams', 'the address has it');
	await page.fill('#search', 'GUE');
	await eventually('a search looks for a part, whatever its case', () => names(page), all => all.join() === 'guest');
	is(await page.evaluate(() => location.hash), '#/tenants?sort=streams&q=GUE', 'the address has that, too');
	await page.reload();
	await eventually('... and can be shared', async () => [(await names(page)).join(), await page.inputValue('#search')], ([n, v]) => n === 'guest' && v === 'GUE');
	await page.fill('#search', '<img');
	await eventually('hostile names are found', () => names(page), all => all.join() === hostile[0]);
	await page.fill('#search', 'nobody at all');
	await eventually('none is said', () => text(page, 'main'), t => t.includes('No tenant has “nobody at all” in its name.'));
	await page.context().close();
}

async function one_tenant()
{
	const page = await tab({ scheme: 'dark', permitted: ['404'] });
	await page.goto(`${base}/#/tenants`);
	await page.click('.tenants a:has-text("guest")');
	await eventually('explained: a full tenant', () => text(page, '.sentences'), t => t.includes('Share: 3 × 4 owned / 4 partitions = 3.') && t.includes('is rejected: 3 active streams fill the share of 3. There is room again when 1 of them expired.'));
	await eventually('... its streams', () => page.locator('section:has(h2:text-is("Streams seen last")) tbody tr').count(), n => n === 3);
	await page.goto(`${base}/#/tenants/dry`);
	await eventually('explained: a dry run', () => text(page, '.sentences'), t => t.includes('counted as a would-be rejection'));
	await page.goto(`${base}/#/tenants/tenant-2`);
	await eventually('explained: a policy with a limit of its own', () => texts(page, 'section:has(h2:text-is("Limits, explained")) tbody tr'), rows => rows.length === 2 && /policy-1\s+full\s+60\s+60/.test(rows[1]));
	const usage = await api('/api/v1/tenants/tenant-2');
	is(await fact(page, 'active streams'), usage.streams.toLocaleString('en-US'), 'what the API says');
	await eventually('two plots', () => page.locator('.plot canvas').count(), n => n === 2);
	ok(await page.locator('.plot canvas').first().evaluate(c => new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer).some(p => p)), '... with something on them');
	ok((await page.locator('.plot').first().getAttribute('aria-label')).includes('most '), '... and words for those who do not see them');
	await shot(page, 'tenant');
	await page.goto(`${base}/#/tenants/never-heard-of`);
	await eventually('nobody has heard of it, and what its limit would be', async () => [await text(page, '.notice:visible'), await text(page, '.sentences')], ([a, b]) => a.includes('no partition of this instance has heard') && b.includes('5,000 more fit'));
	await page.context().close();
}

/* --- limits, processes --------------------------------------------------------------------------- */

async function machine()
{
	const page = await tab();
	await page.goto(`${base}/#/limits`);
	await eventually('limits: the last reload was taken', () => text(page, '.outcome'), t => t.startsWith('taken'));
	await shell('cp "$T/limits.yaml" "$T/limits.good"; echo nonsense: 1 >"$T/limits.yaml"');
	await eventually('... and one that is refused says so, with the line', async () => [await text(page, '.outcome'), await text(page, '.error')], ([a, b]) => a.startsWith('REFUSED') && b.includes('nonsense'));
	await shot(page, 'refused');
	await page.goto(`${base}/#/`);
	await eventually('... on every page', () => text(page, '#banner-limits'), t => t.startsWith('Limits refused: '));
	await shell('cp "$T/limits.good" "$T/limits.new"; mv "$T/limits.new" "$T/limits.yaml"');
	await eventually('... until it is mended', () => page.locator('#banner-limits').isVisible(), seen => !seen);
	await page.goto(`${base}/#/processes`);
	await eventually('processes: one each', () => texts(page, 'tbody tr td:first-child'), all => all.join() === 'tallyd,tally-queryd,tally-worker,tally-worker,tally-worker,tally-worker');
	const pids = (await api('/api/v1/partitions')).partitions.map(p => String(p.pid));
	is((await texts(page, 'tbody tr td:nth-child(3)')).slice(2).join(), pids.join(), '... with their pids');
	ok((await texts(page, 'tbody tr td:nth-child(4)')).every(t => /^[0-9.]+ [KM]iB$/.test(t)), '... and memory');
	ok((await texts(page, 'tbody tr td:nth-child(6)')).every(t => /^[0-9.]+ %$/.test(t)), '... and CPU');
	await shot(page, 'processes');
	await page.context().close();
}

/* --- keys, width, colours ------------------------------------------------------------------------ */

async function keys()
{
	const page = await tab();
	const focused = () => page.evaluate(() => [document.activeElement.getAttribute('href') ?? document.activeElement.id, document.activeElement.matches(':focus-visible')]);
	await page.goto(`${base}/`);
	await page.waitForSelector(card(3));
	await page.keyboard.press('j');
	await page.keyboard.press('j');
	is((await focused()).join(), '#/partitions/1,true', 'j goes on, and it can be seen where');
	await page.keyboard.press('ArrowRight');
	await page.keyboard.press('k');
	await page.keyboard.press('ArrowRight');
	await page.keyboard.press('Enter');
	await eventually('Enter opens', () => text(page, 'h1'), t => t.includes('/ 2'));
	await page.keyboard.press('u');
	await eventually('u goes up, to where one was', focused, f => f[0] === '#/partitions/2');
	await page.keyboard.press('/');
	await eventually('/ goes to the search, from anywhere', focused, f => f[0] === 'search');
	await page.keyboard.type('tenant-');
	await eventually('... and finds', () => names(page), all => all.length === 4);
	await page.keyboard.press('ArrowDown');
	ok((await focused())[0].startsWith('#/tenants/tenant-'), 'down goes to what was found');
	await page.keyboard.press('?');
	is(await page.locator('#help').isVisible(), true, '? explains the keys');
	await page.keyboard.press('Escape');
	is(await page.locator('#help').isVisible(), false, 'Esc closes');
	for (const [key, title] of [['1', 'Partitions'], ['3', 'Limits'], ['4', 'Processes'], ['2', 'Tenants']]) {
		await page.keyboard.press(key);
		await eventually(`${key}: ${title}`, () => text(page, 'h1'), t => t === title);
	}
	await page.keyboard.press('Tab');
	ok((await focused())[1], 'what Tab reaches is seen, too');
	await page.evaluate(() => { document.activeElement.blur(); document.querySelector('.skip').focus(); });
	await page.keyboard.press('Enter');
	is([(await focused())[0], await text(page, 'h1')].join(), 'main,Tenants', 'the skip link leads to the content, and nowhere else');
	await page.context().close();
}

async function narrow()
{
	const page = await tab({ width: 360, height: 740 });
	for (const hash of ['#/', '#/partitions/1', '#/tenants', '#/tenants?sort=rate', '#/tenants/tenant-2', `#/tenants/${LONG}`, '#/limits', '#/processes', '#/nothing']) {
		await page.goto(`${base}/${hash}`);
		await page.waitForSelector('h1');
		await page.waitForFunction(() => document.querySelector('.facts dd, .card, .tenants tbody tr, p'));
		await page.waitForTimeout(300);
		const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
		ok(wide <= 360 && seen === 360, `360 px are enough for ${hash.slice(0, 30)}`, `${wide} of ${seen}`);
		if (hash === '#/processes')
			ok(/^tally-worker 3\s+[0-9]+\s+[0-9.]+ [KM]iB\s+[0-9.]+ %\s+[0-9]+ m?s/.test(await page.locator('tbody tr').last().evaluate(tr => [...tr.cells].filter(c => c.offsetWidth).map(c => c.innerText + (c.dataset.partition ? ` ${c.dataset.partition}` : '')).join(' '))), '... with pid, memory, CPU and uptime of each process');
		await shot(page, `narrow-${hash.replace(/[^a-z0-9]+/gi, '-').slice(0, 24)}`);
	}
	await page.context().close();
}

async function colours()
{
	const light = page => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).map(Number).reduce((a, b) => a + b) > 384);
	for (const scheme of ['dark', 'light']) {
		const page = await tab({ scheme });
		await page.goto(`${base}/`);
		await page.waitForSelector(card(0));
		is(await light(page), scheme === 'light', `${scheme}, as the system has it`);
		await page.click('#theme');
		is(await light(page), scheme !== 'light', '... and the other way, by hand');
		await page.reload();
		await page.waitForSelector(card(0));
		is(await light(page), scheme !== 'light', '... for good');
		await page.keyboard.press('t');
		is(await light(page), scheme === 'light', '... and back');
		await page.context().close();
	}
}

/* --- nobody answers; nobody looks ---------------------------------------------------------------- */

async function outage()
{
	const page = await tab({ scheme: 'dark', permitted: AWAY });
	await page.goto(`${base}/#/tenants`);
	await eventually('before', () => names(page), all => all.includes('guest'));
	await page.route('**/api/v1/tenants?*', route => route.abort());
	await eventually('one answer alone that does not come is said where it is missing', () => text(page, '.notice:visible'), t => /No answer came within 8 s. Shown as of \d\d:\d\d:\d\d\./.test(t));
	is([await text(page, '#contact'), (await names(page)).includes('guest')].join(), 'live,true', '... with what was there, and it is no outage');
	await page.unroute('**/api/v1/tenants?*');
	await shell('stop_tallyd');
	await eventually('an outage is said, with the time', () => text(page, '#banner-contact > span'), t => /^No contact since \d\d:\d\d:\d\d\. What you see is from then\.$/.test(t));
	is(await text(page, '#contact'), 'no contact', '... above as well');
	ok((await names(page)).includes('guest'), 'the last numbers stay');
	ok(await page.evaluate(() => document.body.classList.contains('stale') && getComputedStyle(document.querySelector('main')).opacity < 1), '... and look stale');
	ok((await page.title()).startsWith('✕'), '... as the title does');
	await shot(page, 'outage');
	const said = await text(page, '#banner-contact .since');
	await eventually('time goes on', () => text(page, '#banner-contact .since'), t => t !== said, 5);
	await page.keyboard.press('1');
	await eventually('other pages say it, too', () => page.locator('#banner-contact').isVisible());
	await page.keyboard.press('2');
	await shell('start_tallyd; wait_ready 4');
	await eventually('it heals by itself', async () => [await text(page, '#contact'), await page.locator('#banner-contact').isVisible()], ([t, seen]) => t === 'live' && !seen, 30);
	await eventually('... with numbers of now', () => names(page), all => all.includes('guest'));
	ok(await page.evaluate(() => !document.body.classList.contains('stale')), '... that look so');

	/* It hangs: connections are taken, and nothing comes. */
	const query = (await api('/api/v1/instance')).query_pid;
	process.kill(query, 'SIGSTOP');
	await eventually('one that hangs is no contact either', () => text(page, '#banner-contact'), t => t.startsWith('No contact since'), 40);
	process.kill(query, 'SIGCONT');
	await eventually('... until it goes on', () => text(page, '#contact'), t => t === 'live', 30);
	await page.context().close();
}

async function hidden()
{
	const page = await tab();
	const hide = yes => page.evaluate(h => {
		Object.defineProperty(document, 'hidden', { configurable: true, get: () => h });
		document.dispatchEvent(new Event('visibilitychange'));
	}, yes);
	await page.goto(`${base}/`);
	await page.waitForSelector(card(0));
	await hide(true);
	await page.waitForTimeout(500);
	let n = asked.length;
	await page.waitForTimeout(5000);
	is(asked.length - n, 0, 'a tab that nobody sees asks nothing');
	n = asked.length;
	await hide(false);
	await page.waitForTimeout(300);
	ok(asked.length > n, '... and asks at once when it is seen');
	n = asked.length;
	await page.waitForTimeout(6000);
	ok(asked.length - n >= 4 && asked.length - n <= 8, 'it asks for two answers every two seconds', `${asked.length - n} in six`);
	await page.context().close();
}

/* --- pages of others ------------------------------------------------------------------------------ */

async function strangers()
{
	const page = await foreign_tab(), evil = base.replace('127.0.0.1', FOREIGN);
	const ask = (path, options = {}) => page.evaluate(async ([p, o]) => {
		const answer = await fetch(p, o).catch(e => e);
		return answer instanceof Error ? 'no answer' : `${answer.status} ${(await answer.text()).slice(0, 30)}`;
	}, [path, options]);
	const exceeds = tenant => JSON.stringify({ tenant, streams: [{ streamHash: 1 }] });

	/* The name of its page leads to us now (DNS rebinding): the browser takes us for that page's server. */
	is(await page.goto(`${evil}/`).then(r => r.status()), 421, 'under a foreign name there is no page');
	ok((await text(page, 'body')).includes('query.http_hosts'), '... and who meant well is told what to do');
	await page.route(`${evil}/bait`, route => route.fulfill({ contentType: 'text/html', body: '<!doctype html><p>bait</p>' }));
	await page.goto(`${evil}/bait`);
	ok((await ask('/api/v1/tenants')).startsWith('421 '), 'nothing is read under it');
	ok((await ask('/api/v1/exceeds-limits', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: exceeds('rebound') })).startsWith('421 '), 'nothing is written under it');

	/* It asks us by our address. */
	await page.route('http://other.example/**', route => route.fulfill({ contentType: 'text/html', body: '<!doctype html><p>bait</p>' }));
	await page.goto('http://other.example/');
	is(await ask(`${base}/api/v1/tenants`), 'no answer', 'a foreign page reads no answer');
	for (const type of ['application/json', 'text/plain'])
		await ask(`${base}/api/v1/exceeds-limits`, { method: 'POST', mode: type === 'text/plain' ? 'no-cors' : 'cors', headers: { 'Content-Type': type }, body: exceeds('across') });
	await page.evaluate(([to, body]) => {
		const form = Object.assign(document.createElement('form'), { method: 'POST', action: `${to}/api/v1/exceeds-limits`, enctype: 'text/plain', target: '_blank' });
		form.append(Object.assign(document.createElement('input'), { name: body.slice(0, -1), value: '}' }));
		document.body.append(form);
		form.submit();
	}, [base, exceeds('across')]);
	await page.evaluate(to => Promise.all(['/', '/api/v1/partitions'].map(path => new Promise(go => {
		const frame = Object.assign(document.createElement('iframe'), { src: to + path, onload: go });
		document.body.append(frame);
	}))), base);
	ok(await page.evaluate(() => [...document.querySelectorAll('iframe')].every(f => { try { return !f.contentDocument?.body?.innerText; } catch { return true; } })), '... nor looks into a frame');
	is(page.frames().filter(f => f.url().startsWith(base)).length, 0, '... which has nothing of ours in it');
	const known = (await api('/api/v1/tenants?sort=name&limit=1000')).tenants.map(t => t.tenant);
	is(known.includes('across') || known.includes('rebound'), false, '... and none has written anything');
	is((await api('/api/v1/tenants/across')).error, 'unknown_tenant', '... really');

	/* A link to us, in somebody's wiki, is no attack. */
	await page.evaluate(to => document.body.append(Object.assign(document.createElement('a'), { href: `${to}/#/tenants`, textContent: 'to Tally', id: 'link' })), base);
	await page.click('#link');
	await eventually('a link from elsewhere opens the page', () => text(page, '#contact'), t => t === 'live');
	await page.context().close();
}

/* --- tokens -------------------------------------------------------------------------------------- */

async function tokens()
{
	await shell('stop_tallyd; put_tokens; sed -i "s#^query:#query:\\n  tokens_file: $T/tokens#" "$T/a.yaml"; start_tallyd; wait_ready 4');
	const page = await tab({ permitted: [...AWAY, '401', '403'] });
	const give = async token => {
		await page.waitForSelector('#token[open]');
		await page.fill('#token-text', token);
		await page.keyboard.press('Enter');
	};
	await eventually('the page comes without a token', () => page.goto(`${base}/`).then(r => r.status()), s => s === 200);
	await eventually('... and asks for one', () => page.locator('#token').isVisible());
	is(await page.locator('.card').count(), 0, '... and shows nothing before');
	await shot(page, 'token');
	await give('wrong');
	await eventually('one that is wrong is said so', () => text(page, '#token-why'), t => t.startsWith('The server does not take this one'));
	await give('secret-metrics');
	await eventually('one that may not is told which scope it lacks', () => text(page, '.notice:visible'), t => t === 'Your token may not see this: it needs the scope read (or admin).');
	await page.evaluate(() => sessionStorage.clear());
	await page.reload();
	await give('secret-read:guest');
	await eventually('one of a tenant may not see lists', () => text(page, '.notice:visible'), t => t.includes('scope read'));
	await page.goto(`${base}/#/tenants/guest`);
	await eventually('... but that tenant', () => fact(page, 'active streams'), t => t === '3');
	await page.evaluate(() => sessionStorage.clear());
	await page.goto(`${base}/#/`);
	await page.reload();
	await page.waitForSelector('#token[open]');
	await page.click('#token-cancel');
	await eventually('who has none is told, and not asked again and again', () => text(page, '#banner-token'), t => t.startsWith('A token is needed'));
	await page.waitForTimeout(2500);
	is(await page.locator('#token').isVisible(), false, '... really');
	await page.click('#banner-token button');
	await give('secret-read');
	await eventually('the right one opens', () => page.locator('.card').count(), n => n === 4);
	is(await page.evaluate(() => JSON.stringify(localStorage).includes('secret') || document.cookie !== ''), false, 'it is kept in this tab only');
	await page.reload();
	await eventually('... over a reload', () => page.locator('.card').count(), n => n === 4);
	ok(!asked.some(url => url.includes('secret')), 'it is in no address');
	await page.context().close();
}

/* --------------------------------------------------------------------------------------------------- */

const all = { partitions, states, tenants, one_tenant, machine, keys, narrow, colours, strangers, outage, hidden, tokens };
const chosen = process.env.ONLY ? process.env.ONLY.split(' ') : Object.keys(all);
await start();
for (const name of chosen) {
	try {
		await all[name]();
	} catch (e) {
		ok(false, `${name} came to its end`, e.stack);
	}
}
const elsewhere = asked.filter(url => !url.startsWith(`${base}/`) && !url.startsWith('data:'));
is(elsewhere.join(), '', 'no other host was asked for anything');
is([...new Set(wrong)].join(' | '), '', 'the browser had nothing to complain of');
await end();
say('the end');
process.exit();	/* it would listen for ever */
