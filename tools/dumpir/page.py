"""The page of ``dumpir --html``: markup, style and script in one text without network. `@DATA@` stands for the data."""

# ruff: noqa: E501  (a page's lines)

from __future__ import annotations

PAGE = r"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@NAME@ (dumpir)</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
:root{--line:#d8dce2;--dim:#667085;--mark:#fff3c4;--pick:#cfe3ff;--bar:#7aa7e0}
body{margin:0;font:13px/1.4 system-ui,sans-serif;color:#1d2430;height:100vh;display:flex;flex-direction:column}
header{display:flex;gap:14px;align-items:center;padding:6px 12px;border-bottom:1px solid var(--line);flex-wrap:wrap}
header b{font-size:15px}header button,select,input{font:inherit;padding:2px 8px}
button.on{background:var(--pick)}main{flex:1;display:flex;min-height:0}
section{overflow:auto;padding:6px 8px;border-right:1px solid var(--line)}
#tree{width:22%}#source{width:33%}#eqns{flex:1;border:0}
pre,code,.m{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace}
.row{white-space:pre;cursor:pointer;padding:0 4px}.row:hover{background:#f2f4f7}
#tree .row{padding-left:22px}.c{color:#2e9e6b;display:inline-block;width:4ch;text-align:right;margin-right:1ch;user-select:none}
.row.line{background:var(--mark)}.row.pick{background:var(--pick)}.row.in{border-left:3px solid #2e9e6b}.row.out{border-left:3px solid #d9762b}
.no{color:var(--dim);display:inline-block;width:4ch;text-align:right;margin-right:1ch;user-select:none}
.k{color:#8a3ffc}details{margin-left:10px}summary{cursor:pointer}
table{border-collapse:collapse;margin:6px 0 16px}td,th{padding:2px 10px 2px 0;text-align:left;vertical-align:top;border-bottom:1px solid #eef0f3}
.bar{background:var(--bar);height:12px;display:inline-block;vertical-align:middle}.bar.top{background:#d9762b}
#lineage{border-top:1px solid var(--line);max-height:32vh;overflow:auto;padding:6px 12px}#lineage h4{margin:4px 0}
.wide{flex:1;display:none;border:0}.dim{color:var(--dim)}
</style></head><body>
<header><b id="title"></b><span id="tabs"></span><span id="of"></span>
<input id="find" placeholder="find in equations" size="18"><span class="dim" id="note"></span></header>
<main><section id="tree"></section><section id="source"></section><section id="eqns"></section><section class="wide" id="wide"></section></main>
<div id="lineage"></div>
<script id="data" type="application/json">@DATA@</script>
<script>
"use strict";
const D=JSON.parse(document.getElementById("data").textContent),$=i=>document.getElementById(i);
const el=(tag,text,cls)=>{const e=document.createElement(tag);if(text!=null)e.textContent=text;if(cls)e.className=cls;return e};
let stage=Math.max(0,D.stages.length-1),line=null,pick=null,file=0;
const short=f=>f.split("/").pop(),at=s=>s<0?"":short(D.files[D.sources[s][0]].name)+":"+D.sources[s][1];
const size=n=>n<1024?n+" B":n<1048576?(n/1024).toFixed(1)+" KiB":(n/1048576).toFixed(2)+" MiB";
const time=s=>s>=1?s.toFixed(2)+" s":(s*1e3).toFixed(1)+" ms";
const sourcesOf=e=>e.p?[e.s,...e.p]:[e.s];
const isOf=(e,l)=>sourcesOf(e).some(s=>s>=0&&D.sources[s][0]===l[0]&&D.sources[s][1]===l[1]);
const up=D.stages.map((st,k)=>{const u=st.eqns.map(()=>[]);if(k)D.stages[k-1].eqns.forEach((e,i)=>(e.d||[]).forEach(j=>u[j].push(i)));return u});
const uses=D.stages.map(st=>{const u=st.eqns.map(()=>[]);st.eqns.forEach((e,j)=>e.i.forEach(i=>u[i].push(j)));return u});

function tree(){const root=$("tree"),by=new Map();root.replaceChildren(el("b","user frames"));
 D.stages[stage].eqns.forEach(e=>{if(e.s<0)return;const[f,n,fn,sc]=D.sources[e.s],key=f+" "+(sc?sc+"/":"")+fn;
  if(!by.has(key))by.set(key,{f,fn:(sc?sc+"/":"")+fn,lines:new Map()});const g=by.get(key);g.lines.set(n,(g.lines.get(n)||0)+1)});
 const files=new Map();by.forEach(g=>{if(!files.has(g.f))files.set(g.f,[]);files.get(g.f).push(g)});
 files.forEach((gs,f)=>{const d=el("details");d.open=true;d.append(el("summary",short(D.files[f].name)));
  gs.forEach(g=>{const e=el("details"),total=[...g.lines.values()].reduce((a,b)=>a+b,0);e.open=gs.length<12;e.append(el("summary",g.fn+"  ("+total+")"));
   [...g.lines].sort((a,b)=>a[0]-b[0]).forEach(([n,c])=>{const r=el("div",null,"row");r.append("line "+n,el("span",c,"c"));if(line&&line[0]===f&&line[1]===n)r.classList.add("line");
    r.onclick=()=>choose([f,n]);e.append(r)});d.append(e)});root.append(d)});
 const a=el("details");a.append(el("summary","arguments ("+D.arguments.length+")"));D.arguments.forEach(x=>a.append(el("div",x[0]+"  "+x[1]+"  "+x[2],"row m")));root.append(a);
 const r=el("details");r.append(el("summary","results ("+D.results.length+")"));D.results.forEach(x=>r.append(el("div",x[0]+"  "+x[1],"row m")));root.append(r)}

function source(){const root=$("source");root.replaceChildren();if(!D.files.length){root.append(el("i","no source"));return}
 if(D.files.length>1){const s=el("select");D.files.forEach((f,i)=>{const o=el("option",short(f.name));o.value=i;s.append(o)});s.value=file;s.onchange=()=>{file=+s.value;source()};root.append(s)}
 const counts=new Map();D.stages[stage].eqns.forEach(e=>new Set(sourcesOf(e)).forEach(s=>{if(s>=0&&D.sources[s][0]===file){const n=D.sources[s][1];counts.set(n,(counts.get(n)||0)+1)}}));
 D.files[file].rows.forEach((t,i)=>{const r=el("div",null,"row m"),n=i+1;r.append(el("span",n,"no"),el("span",counts.get(n)||"","c"),t||" ");
  if(counts.has(n)){r.onclick=()=>choose([file,n])}
  if(line&&line[0]===file&&line[1]===n){r.classList.add("line");setTimeout(()=>r.scrollIntoView({block:"nearest"}))}root.append(r)})}

function eqns(){const root=$("eqns"),st=D.stages[stage],word=$("find").value.toLowerCase();root.replaceChildren();const part=document.createDocumentFragment();let first=null,n=0;
 const ins=pick!=null?new Set(st.eqns[pick].i):new Set(),outs=pick!=null?new Set(uses[stage][pick]):new Set();
 st.eqns.forEach((e,i)=>{if(word&&!e.t.toLowerCase().includes(word))return;n++;const r=el("div",null,"row m");r.append(el("span",i,"no"),e.t);
  if(e.k)r.append(el("span","  "+e.k.join(" "),"k"));if(e.s>=0)r.append(el("span","  "+at(e.s),"dim"));
  if(line&&isOf(e,line)){r.classList.add("line");first=first||r}if(i===pick){r.classList.add("pick");first=r}if(ins.has(i))r.classList.add("in");if(outs.has(i))r.classList.add("out");
  r.onclick=()=>{pick=i;if(e.s>=0){line=[D.sources[e.s][0],D.sources[e.s][1]];file=line[0]}draw()};part.append(r)});
 root.append(part);$("note").textContent=n+" of "+st.eqns.length+" equations";if(first)setTimeout(()=>first.scrollIntoView({block:"nearest"}))}

function lineage(){const root=$("lineage");root.replaceChildren();if(pick==null){root.append(el("span","Choose a line or an equation: its lineage through the passes is shown here. Green: what it reads; orange: what reads it.","dim"));return}
 const chain=[];let now=new Set([pick]);for(let k=stage-1;k>=0;k--){const next=new Set();now.forEach(j=>up[k+1][j].forEach(i=>next.add(i)));chain.unshift([k,next]);now=next}
 chain.push([stage,new Set([pick])]);now=new Set([pick]);for(let k=stage;k<D.stages.length-1;k++){const next=new Set();now.forEach(i=>(D.stages[k].eqns[i].d||[]).forEach(j=>next.add(j)));chain.push([k+1,next]);now=next}
 chain.forEach(([k,set])=>{const h=el("h4",D.stages[k].name+(set.size?"":": nothing"));if(k===stage)h.append(" (chosen)");root.append(h);
  [...set].slice(0,8).forEach(i=>{const r=el("div",D.stages[k].eqns[i].t,"row m");r.onclick=()=>{stage=k;pick=i;draw()};root.append(r)});if(set.size>8)root.append(el("div","... "+(set.size-8)+" more","dim"))});
 const last=chain[chain.length-1];const ks=new Set();last[1].forEach(i=>(D.stages[last[0]].eqns[i].k||[]).forEach(k=>ks.add(k)));
 ks.forEach(k=>{const f=D.kernels.find(x=>x.symbol===k);root.append(el("div","kernel "+k+": "+(f?f.reason:""),"m k"))})}

function table(head,rows,click){const t=el("table"),h=el("tr");head.forEach(x=>h.append(el("th",x)));t.append(h);rows.forEach((r,i)=>{const tr=el("tr");r.forEach(x=>{const td=el("td");x instanceof Node?td.append(x):td.textContent=x;tr.append(td)});if(click){tr.style.cursor="pointer";tr.onclick=()=>click(i)}t.append(tr)});return t}
function bar(x,max,top){const b=el("span",null,"bar"+(top?" top":""));b.style.width=Math.max(1,300*x/(max||1))+"px";return b}
const toLine=s=>{if(s>=0){choose([D.sources[s][0],D.sources[s][1]]);show("program")}};
const WIDE={
 kernels(r){r.append(el("h3","kernels by kind"),table(["kind","launches","codes","operations","moved","estimate","why this form"],D.kinds),el("h3","calls of quire's own kernels"));
  r.append(table(["kernel","line","why this form"],D.kernels.map(k=>[k.symbol,at(k.s),k.reason]),i=>toLine(D.kernels[i].s)));
  r.append(el("h3","what is no kernel, and why"),table(["primitive","line","reason"],D.refusals.map(k=>[k.primitive,at(k.s),k.text]),i=>toLine(D.refusals[i].s)))},
 rewrites(r){r.append(el("h3","passes"),table(["pass","ms","equations","rules"],D.rewrites.map(p=>[p.pass,(p.seconds*1e3).toFixed(1),p.before+" -> "+p.after,p.rules.map(x=>x[0]+" "+x[1]).join(", ")])));
  D.rewrites.forEach(p=>{if(!p.at.length)return;const by=new Map();p.at.forEach(([rule,s])=>{if(!by.has(rule))by.set(rule,[]);by.get(rule).push(s)});
   r.append(el("h3",p.pass+": rewrites by rule"));by.forEach((ss,rule)=>{const d=el("details");d.append(el("summary",rule+" ("+ss.length+")"));ss.forEach(s=>{const x=el("div",at(s)||"(no line)","row m");x.onclick=()=>toLine(s);d.append(x)});r.append(d)})})},
 memory(r){const m=D.memory;if(!m.length){r.append(el("i","nothing is held"));return}const max=Math.max(...m.map(x=>x[1]));
  r.append(el("h3","temporary memory while each step runs: "+size(D.peak.transient)+" in one block, "+size(D.peak.held)+" held at the peak, step "+D.peak.step));
  r.append(table(["step","held","","what","line"],m.map(x=>[x[0],size(x[1]),bar(x[1],max,x[0]===D.peak.step),x[2],x[3]])));
  r.append(el("h3","held at the peak"),table(["bytes","type","made by","line"],D.peak.values.map(v=>[size(v[0]),v[1]||"",v[2],v[3]])))},
 "compile time"(r){const s=Object.entries(D.seconds),max=Math.max(...s.map(x=>x[1]));r.append(el("h3","compile time by phase"),table(["phase","",""],s.map(([k,v])=>[k,time(v),bar(v,max)])))},
 devices(r){r.append(el("pre",D.spmd))}};
let tab="program";
function show(name){tab=name;const p=name==="program";["tree","source","eqns"].forEach(i=>$(i).style.display=p?"":"none");$("lineage").style.display=p?"":"none";$("wide").style.display=p?"none":"block";
 if(!p){$("wide").replaceChildren();D.errors.forEach(e=>$("wide").append(el("pre",e)));WIDE[name]($("wide"))}tabs();if(p)draw()}
function tabs(){const t=$("tabs");t.replaceChildren();["program",...Object.keys(WIDE)].forEach(n=>{if(n==="devices"&&!D.spmd)return;const b=el("button",n,n===tab?"on":"");b.onclick=()=>show(n);t.append(b," ")});
 const o=$("of");o.replaceChildren();if(tab!=="program")return;D.stages.forEach((s,k)=>{const b=el("button",s.name,k===stage?"on":"");b.onclick=()=>{stage=k;pick=null;draw()};o.append(b," ")})}
function choose(l){line=l;file=l[0];pick=D.stages[stage].eqns.findIndex(e=>isOf(e,l));if(pick<0)pick=null;draw()}
function draw(){tabs();tree();source();eqns();lineage()}
$("find").oninput=eqns;$("title").textContent=D.name+" for "+D.target;draw();document.body.dataset.ready=Math.round(performance.now());
</script></body></html>
"""
