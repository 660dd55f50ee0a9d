// Made by scripts/vendor_page.py from preact 11.2.0, @preact/signals 2.11.4, @preact/signals-core 1.14.5, htm 3.1.1. Licences: LICENSE beside this file.
// packages/preact/package/dist/preact.mjs
var n;
var t;
var r;
var u;
var i;
var f;
var o;
var e;
var l;
var c;
var a;
var s;
var h = /* @__PURE__ */ Symbol.for("pv");
var p = {};
var y = [];
var v = /^m(i|n|o|s|text|space)$/;
var w = Array.isArray;
var d = y.slice;
var _ = Object.assign;
function g(n2) {
  n2 && n2.parentNode && n2.remove();
}
function k(n2, t3, r3) {
  var u3, i3, f3, o3 = {}, e3 = arguments.length;
  for (f3 in t3) "key" == f3 ? u3 = t3[f3] : "ref" == f3 && "function" != typeof n2 ? i3 = t3[f3] : o3[f3] = t3[f3];
  return e3 > 2 && (o3.children = e3 > 3 ? d.call(arguments, 2) : r3), m(n2, o3, u3, i3, null);
}
function m(r3, u3, i3, f3, o3) {
  var e3 = { type: r3, props: u3, key: i3, ref: f3, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: h, __v: o3 || ++t, __i: -1, __u: 0 };
  return !o3 && n.vnode && n.vnode(e3), e3;
}
function $(n2) {
  return n2.children;
}
function x(n2, t3) {
  this.props = n2, this.context = t3, this.__g = 0;
}
function S(n2, t3) {
  if (null == t3) return n2.__ && S(n2.__, n2.__i + 1);
  for (var r3; t3 < n2.__k.length; t3++) if ((r3 = n2.__k[t3]) && r3.__e) return r3.__e;
  return "function" != typeof n2.type || n2.props.__P ? null : S(n2);
}
function C(t3) {
  var r3, u3 = t3.__v, i3 = u3.__e, f3 = [], o3 = [], e3 = t3.__P;
  e3 && ((r3 = _({ constructor: h }, u3)).__v = u3.__v + 1, n.vnode && n.vnode(r3), z(e3, r3, u3, t3.__n, e3.namespaceURI, 32 & u3.__u ? [i3] : null, f3, i3 || S(u3), 32 & u3.__u, o3), r3.__v = u3.__v, r3.__.__k[r3.__i] = r3, E(f3, r3, o3), u3.__ = u3.__e = null, r3.__e != i3 && j(r3));
}
function j(n2) {
  if ((n2 = n2.__) && n2.__c && !n2.props.__P) return n2.__e = null, n2.__k.some(function(t3) {
    return t3 && (n2.__e = t3.__e);
  }), j(n2);
}
function L(t3) {
  (8 & t3.__g || (t3.__g |= 8, u.push(t3), f++)) && i == n.debounceRendering || ((i = n.debounceRendering) || queueMicrotask)(H);
}
function H() {
  try {
    for (var n2, t3 = 1; u.length; ) u.length > t3 && u.sort(o), n2 = u.shift(), t3 = u.length, 8 & n2.__g && C(n2);
  } finally {
    (f = u.length) && (i || queueMicrotask)(H);
  }
}
function I(n2, t3, r3, u3, i3, f3, o3, e3, l3, c3, a3) {
  var s3, h3, v3, w3, d3, _3, g3 = u3.__k || y, k3 = t3.length;
  for (l3 = q(r3, t3, g3, l3, k3), s3 = 0; s3 < k3; s3++) null != (v3 = r3.__k[s3]) && (h3 = ~v3.__i && g3[v3.__i] || p, v3.__i = s3, _3 = z(n2, v3, h3, i3, f3, o3, e3, l3, c3, a3), w3 = v3.__e, (h3.ref != v3.ref || 8 & h3.__u) && (h3.ref && G(h3.ref, null, v3, h3), v3.ref && a3.push(v3.ref, v3.__c || w3, v3)), d3 = d3 || w3, 4 & v3.__u ? (l3 = A(v3, l3, n2, !h3.__v), h3.__e && (h3.__e = null)) : "function" == typeof v3.type && void 0 !== _3 ? l3 = _3 : w3 && (l3 = w3.nextSibling), v3.__u &= -21);
  return r3.__e = d3, l3;
}
function q(n2, t3, r3, u3, i3) {
  var f3, o3, e3, l3, c3, a3, s3, p3, y3, v3 = r3.length, d3 = v3, _3 = 0, g3 = 0, k3 = n2.__k = Array(i3);
  for (f3 = 0; f3 < i3; f3++) null != (o3 = t3[f3]) && "boolean" != typeof o3 && "function" != typeof o3 ? ("object" != typeof o3 || o3.constructor === String ? o3 = k3[f3] = m(null, o3) : w(o3) ? o3 = k3[f3] = m($, { children: o3 }) : o3.constructor === h && o3.__b ? o3 = k3[f3] = m(o3.type, o3.props, o3.key, o3.ref, o3.__v) : k3[f3] = o3, l3 = f3 + _3, o3.__ = n2, o3.__b = n2.__b + 1, e3 = null, ~(c3 = o3.__i = P(o3, r3, l3, d3)) && (d3--, (e3 = r3[c3]) && (e3.__u |= 2)), e3 && e3.__v ? (o3.__u |= 16, c3 == l3 - 1 ? _3-- : c3 == l3 + 1 ? _3++ : c3 != l3 && (c3 > l3 ? _3-- : _3++, g3 = 1)) : (~c3 || (i3 > v3 ? _3-- : i3 < v3 && _3++), "function" != typeof o3.type && (o3.__u |= 4))) : k3[f3] = null;
  if (g3) {
    for (a3 = [], s3 = [], f3 = 0; f3 < i3; f3++) if ((o3 = k3[f3]) && 16 & o3.__u) {
      for (_3 = 0, p3 = a3.length; _3 < p3; ) a3[y3 = _3 + p3 >> 1] < o3.__i ? _3 = y3 + 1 : p3 = y3;
      a3[_3] = o3.__i, s3[f3] = _3 + 1;
    }
    for (_3 = a3.length; f3--; ) s3[f3] && (s3[f3] == _3 ? _3-- : k3[f3].__u |= 4);
  }
  if (d3) for (f3 = 0; f3 < v3; f3++) !(e3 = r3[f3]) || 2 & e3.__u || (e3.__e == u3 && (u3 = S(e3)), J(e3, e3));
  return u3;
}
function A(n2, t3, r3, u3) {
  var i3, f3, o3, e3;
  if ("function" == typeof n2.type) {
    if (n2.props.__P) return t3;
    if (i3 = n2.__k) for (f3 = 0; f3 < i3.length; f3++) i3[f3] && (i3[f3].__ = n2, t3 = A(i3[f3], t3, r3, false));
    return t3;
  }
  for (t3 && !t3.parentNode && (t3 = S(n2)) && !t3.parentNode && (t3 = null), o3 = n2.__e, e3 = t3; e3 && 8 == e3.nodeType; ) e3 = e3.nextSibling;
  for (o3 != e3 && (!u3 && r3.moveBefore && o3.parentNode ? r3.moveBefore(o3, t3) : r3.insertBefore(o3, t3 || null)), t3 = o3; (t3 = t3 && t3.nextSibling) && 8 == t3.nodeType && !t3.data.startsWith("$s"); ) ;
  return t3;
}
function P(n2, t3, r3, u3) {
  var i3, f3 = n2.key, o3 = n2.type, e3 = t3[r3], l3 = e3 && !(2 & e3.__u);
  if (null === e3 && null == f3 || l3 && f3 == e3.key && o3 == e3.type) return r3;
  if (u3 > (l3 ? 1 : 0)) {
    for (i3 = r3 - 1; i3 >= 0; i3--) if ((e3 = t3[i3]) && !(2 & e3.__u) && f3 == e3.key && o3 == e3.type) return i3;
    for (i3 = r3 + 1; i3 < t3.length; i3++) if ((e3 = t3[i3]) && !(2 & e3.__u) && f3 == e3.key && o3 == e3.type) return i3;
  }
  return -1;
}
function T(n2, t3, r3) {
  null == r3 && (r3 = ""), "-" == t3[0] ? n2.setProperty(t3, r3) : n2[t3] = r3;
}
function N(n2, t3, r3, u3, i3) {
  var f3, o3;
  if ("style" == t3) if ("string" == typeof r3) n2.style.cssText = r3;
  else {
    if ("string" == typeof u3 && (n2.style.cssText = u3 = ""), u3) for (t3 in u3) r3 && t3 in r3 || T(n2.style, t3);
    if (r3) for (t3 in r3) u3 && r3[t3] == u3[t3] || T(n2.style, t3, r3[t3]);
  }
  else if ("o" == t3[0] && "n" == t3[1]) "function" != typeof r3 && (r3 = null), "function" != typeof u3 && (u3 = null), (n2.__e || (n2.__e = {}))[t3] = r3, r3 && u3 || (o3 = a[t3] || (a[t3] = V(t3)), (n2.__a || (n2.__a = {}))[t3] = c, f3 = t3 != (t3 = t3.replace(l, "$1")), (t3 = t3.slice(2))[0] < "a" && (t3 = t3.toLowerCase()), r3 ? n2.addEventListener(t3, o3, f3) : n2.removeEventListener(t3, o3, f3));
  else {
    if ("http://www.w3.org/2000/svg" == i3) t3 = t3.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
    else if ("width" != t3 && "height" != t3 && "href" != t3 && "list" != t3 && "form" != t3 && "tabIndex" != t3 && "download" != t3 && "rowSpan" != t3 && "colSpan" != t3 && "role" != t3 && "popover" != t3 && t3 in n2) try {
      return void (n2[t3] = null == r3 ? "" : r3);
    } catch (n3) {
    }
    if ("function" == typeof r3) return;
    null == r3 || false === r3 && "-" != t3[4] ? n2.removeAttribute(t3) : n2.setAttribute(t3, "popover" == t3 && 1 == r3 ? "" : r3);
  }
}
function V(t3) {
  return function(r3) {
    var u3 = this.__e;
    if (u3) {
      if (u3 = u3[t3], null == r3[e]) r3[e] = c++;
      else if (r3[e] < this.__a[t3]) return;
      return u3(n.event ? n.event(r3) : r3);
    }
  };
}
function z(t3, r3, u3, i3, f3, o3, e3, l3, c3, a3) {
  var s3, p3, v3, d3, k3, b, m3, M, C3, j2, L2, H2, q2, A3, O, P2, T3, N2, V2 = r3.type;
  if (r3.constructor !== h) return null;
  128 & u3.__u && (c3 = 32 & u3.__u, s3 = u3.__c.__z) && (r3.__u |= c3, p3 = o3 = [], 8 == s3.nodeType ? l3 = B(s3, o3) : o3.push(s3), l3 = o3[0] || l3), (s3 = n.__b) && s3(r3);
  n: if ("function" == typeof V2) {
    v3 = e3.length;
    try {
      if (M = r3.props, C3 = (s3 = V2.prototype) && s3.render, j2 = (s3 = V2.contextType) && i3[s3.__c], L2 = s3 ? j2 ? j2.props.value : s3.__ : i3, (d3 = u3.__c) ? (r3.__c = d3, 2 & d3.__g && (d3.__g |= 1)) : (C3 ? r3.__c = d3 = new V2(M, L2) : (r3.__c = d3 = new x(M, L2), d3.constructor = V2, d3.render = K), j2 && j2.sub(d3), d3.state || (d3.state = {}), d3.__n = i3, d3.__g |= 8, d3.__h = [], d3.__k = []), C3 && (d3.__s || (d3.__s = d3.state), V2.getDerivedStateFromProps && (d3.__s == d3.state && (d3.__s = _({}, d3.__s)), _(d3.__s, V2.getDerivedStateFromProps(M, d3.__s)))), k3 = d3.props, b = d3.state, d3.__v = r3, u3.__c) {
        if (M !== k3 && C3 && !V2.getDerivedStateFromProps && d3.componentWillReceiveProps && d3.componentWillReceiveProps(M, L2), r3.__v == u3.__v && !(8 & d3.__g) || !(4 & d3.__g) && d3.shouldComponentUpdate && false === d3.shouldComponentUpdate(M, d3.__s, L2)) {
          r3.__v != u3.__v && (d3.props = M, d3.state = d3.__s, d3.__g &= -9), r3.__e = u3.__e, r3.__k = u3.__k, r3.__k.some(function(n2) {
            n2 && (n2.__ = r3);
          }), y.push.apply(d3.__h, d3.__k), d3.__k = [], d3.__h.length && e3.push(d3), l3 = S(u3);
          break n;
        }
        d3.componentWillUpdate && d3.componentWillUpdate(M, d3.__s, L2), C3 && d3.componentDidUpdate && d3.__h.push(function() {
          d3.componentDidUpdate(k3, b, m3);
        });
      } else C3 && !V2.getDerivedStateFromProps && d3.componentWillMount && d3.componentWillMount(), C3 && d3.componentDidMount && d3.__h.push(d3.componentDidMount);
      d3.context = L2, d3.props = M, d3.__P = t3, d3.__g &= -5, H2 = n.__r, q2 = C3 ? 25 : 0;
      do {
        d3.__g &= -9, H2 && H2(r3), s3 = d3.render(d3.props, d3.state = d3.__s, d3.context);
      } while (8 & d3.__g && ++q2 < 25);
      C3 && (y.push.apply(d3.__h, d3.__k), d3.__k = []), d3.state = d3.__s, d3.getChildContext && (i3 = _({}, i3, d3.getChildContext())), C3 && u3.__c && d3.getSnapshotBeforeUpdate && (m3 = d3.getSnapshotBeforeUpdate(k3, b)), A3 = s3 && s3.type === $ && null == s3.key ? s3.props.children : s3, M.__P && (s3 = l3, f3 = (t3 = M.__P).namespaceURI, c3 = o3 = null, u3.props && u3.props.__P != t3 && (u3.__k.some(function(n2) {
        n2 && J(n2, n2);
      }), u3.__k = null), l3 = u3.__k ? S(u3, 0) : null), l3 = I(t3, w(A3) ? A3 : [A3], r3, u3, i3, f3, o3, e3, l3, c3, a3), M.__P && (r3.__e = null, l3 = s3), r3.__u &= -161, p3 && p3.some(g), d3.__h.length && e3.push(d3), 1 & d3.__g && (d3.__g &= -4);
    } catch (t4) {
      if (e3.length = v3, r3.__v = null, c3 || o3) if (t4 && t4.then) {
        if (r3.__u |= 128 | c3, o3) {
          for (~(T3 = o3.indexOf(l3 || void 0)) || (T3 = o3.length); (N2 = o3[T3 - 1]) && 8 == N2.nodeType; ) T3--;
          for (; T3 < o3.length; T3++) if (N2 = o3[T3]) if (o3[T3] = null, O) {
            if (N2 == P2) break;
          } else {
            if (8 != N2.nodeType) break;
            N2.data.startsWith("$s") && (P2 = B(O = N2));
          }
        }
        if (!O) {
          for (; l3 && 8 == l3.nodeType && l3.nextSibling; ) l3 = l3.nextSibling;
          O = l3;
        }
        (s3 = B(O = r3.__c.__z || (r3.__c.__z = O))) ? (r3.__e = O, l3 = s3) : r3.__e = l3, l3 = l3 && l3.nextSibling;
      } else o3 && o3.some(g);
      else r3.__e = u3.__e;
      r3.__k || (r3.__k = u3.__k || []), t4 && t4.then || D(r3), n.__e(t4, r3, u3);
    }
  } else l3 = r3.__e = F(u3.__e, r3, u3, i3, f3, o3, e3, c3, a3, t3);
  return (s3 = n.diffed) && s3(r3), l3;
}
function B(n2, t3) {
  if (n2 && 8 == n2.nodeType && n2.data.startsWith("$s")) for (var r3 = 1; n2 = n2.nextSibling; ) {
    if (8 == n2.nodeType) {
      if (n2.data.startsWith("$s")) r3++;
      else if (n2.data.startsWith("/$s") && !--r3) return n2;
    }
    t3 && t3.push(n2);
  }
}
function D(n2) {
  n2 && (n2.__c && (n2.__c.__g |= 4), n2.__k && n2.__k.some(D));
}
function E(t3, r3, u3) {
  for (var i3 = 0; i3 < u3.length; ) G(u3[i3++], u3[i3++], u3[i3++]);
  n.__c && n.__c(r3, t3), t3.some(function(r4) {
    try {
      t3 = r4.__h, r4.__h = [], t3.some(function(n2) {
        n2.call(r4);
      });
    } catch (t4) {
      n.__e(t4, r4.__v);
    }
  });
}
function F(t3, r3, u3, i3, f3, o3, e3, l3, c3, a3) {
  var s3, h3, y3, _3, k3, b, m3, M, $2 = u3.props || p, x2 = r3.props, C3 = r3.type;
  if ("svg" == C3 ? f3 = "http://www.w3.org/2000/svg" : "math" == C3 ? f3 = "http://www.w3.org/1998/Math/MathML" : f3 || (f3 = "http://www.w3.org/1999/xhtml"), o3) {
    for (s3 = 0; s3 < o3.length; s3++) if ((k3 = o3[s3]) && (C3 ? k3.localName == C3 : 3 == k3.nodeType)) {
      t3 = k3, o3[s3] = null;
      break;
    }
  }
  if (!t3) {
    if (M = a3.ownerDocument || document, !C3) return M.createTextNode(x2);
    t3 = M.createElementNS(f3, C3, x2.is ? x2 : a3), l3 && (n.__m && n.__m(r3, o3), l3 = false), o3 = null;
  }
  if (C3) {
    if (a3 = "template" == C3 && t3.content || t3, o3 = "textarea" == C3 && null != x2.defaultValue ? null : o3 && d.call(a3.childNodes), !l3 && o3) for ($2 = {}, s3 = 0; s3 < t3.attributes.length; s3++) $2[(k3 = t3.attributes[s3]).name] = k3.value;
    for (s3 in $2) k3 = $2[s3], "dangerouslySetInnerHTML" == s3 ? y3 = k3 : "children" == s3 || s3 in x2 || "value" == s3 && "defaultValue" in x2 || "checked" == s3 && "defaultChecked" in x2 || N(t3, s3, null, k3, f3);
    for (s3 in x2) k3 = x2[s3], "children" == s3 ? _3 = k3 : "dangerouslySetInnerHTML" == s3 ? h3 = k3 : "value" == s3 ? b = k3 : "checked" == s3 ? m3 = k3 : l3 && "function" != typeof k3 || $2[s3] === k3 || N(t3, s3, k3, $2[s3], f3);
    h3 ? (l3 || y3 && (h3.__html == y3.__html || h3.__html == t3.innerHTML) || (t3.innerHTML = h3.__html), r3.__k = []) : (y3 && (t3.textContent = ""), ("foreignObject" == C3 || "http://www.w3.org/1998/Math/MathML" == f3 && v.test(C3)) && (f3 = "http://www.w3.org/1999/xhtml"), I(a3, w(_3) ? _3 : [_3], r3, u3, i3, f3, o3, e3, o3 ? o3[0] : u3.__k && S(u3, 0), l3, c3), o3 && o3.some(g)), l3 && "textarea" != C3 || (s3 = "value", "progress" == C3 && null == b ? t3.removeAttribute(s3) : null == b || b === t3[s3] && ("progress" != C3 || b) || N(t3, s3, b, $2[s3], f3), s3 = "checked", null != m3 && m3 != t3[s3] && N(t3, s3, m3, $2[s3], f3));
  } else $2 === x2 || l3 && t3.data == x2 || (t3.data = x2);
  return t3;
}
function G(t3, r3, u3, i3) {
  try {
    "function" == typeof t3 ? r3 ? r3.__x = t3(r3) || 1 : i3 && (i3 = i3.__c || i3.__e) && (r3 = i3.__x) && (i3.__x = null, "function" == typeof r3 ? r3() : t3(null)) : t3.current = r3;
  } catch (t4) {
    n.__e(t4, u3);
  }
}
function J(t3, r3, u3) {
  var i3, f3, o3, e3;
  if (n.unmount && n.unmount(t3), !(i3 = t3.ref) || i3.current && i3.current != t3.__e || G(i3, null, r3, t3), i3 = t3.__c) {
    if (i3.componentWillUnmount) try {
      i3.componentWillUnmount();
    } catch (t4) {
      n.__e(t4, r3);
    }
    i3.__P = i3.__n = null;
  }
  if (i3 = t3.__k) for (e3 = 0; e3 < i3.length; e3++) i3[e3] && J(i3[e3], r3, "function" != typeof t3.type || u3 && !t3.props.__P);
  !u3 && (i3 = t3.__c) && (i3 = i3.__z) && (f3 = B(i3, o3 = [])) && (i3 == t3.__e && o3.some(g), g(f3), g(i3)), u3 || g(t3.__e), t3.__e = t3.__c = t3.__ = null;
}
function K(n2, t3, r3) {
  return this.constructor(n2, r3);
}
function Q(t3, r3) {
  var u3, i3, f3, o3;
  n.__ && n.__(t3, r3), 9 == r3.nodeType && (r3 = r3.documentElement), i3 = (u3 = t3 && 32 & t3.__u) ? null : r3.__k, r3.__k = m($, { children: [t3] }), f3 = [], o3 = [], z(r3, r3.__k, i3 || p, p, r3.namespaceURI, i3 ? null : r3.firstChild ? d.call(r3.childNodes) : null, f3, i3 ? i3.__e : r3.firstChild, u3, o3), E(f3, r3.__k, o3), r3.__k.props.children = null;
}
n = { __e: function(n2, t3, r3, u3) {
  for (var i3, o3, e3; t3 = t3.__; ) if ((i3 = t3.__c) && !(1 & i3.__g)) {
    i3.__g |= 4;
    try {
      if ((e3 = (o3 = i3.constructor) && o3.getDerivedStateFromError) && i3.setState(o3.getDerivedStateFromError(n2)), i3.componentDidCatch && (i3.componentDidCatch(n2, u3 || {}), e3 = 1), e3 && 8 & i3.__g) return void (i3.__g |= 2);
    } catch (t4) {
      n2 = t4;
    }
  }
  throw f = 0, n2;
} }, t = 0, r = function(n2) {
  return null != n2 && n2.constructor === h;
}, x.prototype.setState = function(n2, t3) {
  var r3 = this.__s;
  r3 && r3 != this.state || (r3 = this.__s = _({}, this.state)), "function" == typeof n2 && (n2 = n2(_({}, r3), this.props)), n2 && (_(r3, n2), this.__v && (t3 && this.__k.push(t3), L(this)));
}, x.prototype.forceUpdate = function(n2) {
  this.__v && (this.__g |= 4, n2 && this.__h.push(n2), L(this));
}, x.prototype.render = $, u = [], f = 0, o = function(n2, t3) {
  return n2.__v.__b - t3.__v.__b;
}, e = /* @__PURE__ */ Symbol(), l = /(PointerCapture)$|Capture$/i, c = 0, a = {}, s = 0;

// packages/preact/package/hooks/dist/hooks.mjs
var t2;
var r2;
var u2;
var i2;
var o2 = Object.is;
var f2 = 0;
var c2 = [];
var e2 = [];
var a2 = n;
var v2 = a2.__b;
var l2 = a2.__r;
var m2 = a2.diffed;
var h2 = a2.__c;
var s2 = a2.unmount;
var p2 = a2.__;
function y2(n2, t3) {
  a2.__h && a2.__h(r2, n2, f2 || t3), f2 = 0;
  var u3 = r2.__H || (r2.__H = { __: [], __h: [] });
  return n2 >= u3.__.length && u3.__.push({}), u3.__[n2];
}
function d2(n2) {
  return f2 = 1, _2(G2, n2);
}
function _2(n2, u3, i3) {
  var f3 = y2(t2++, 2);
  if (f3.t = n2, !f3.__c && (f3.__ = [i3 ? i3(u3) : G2(void 0, u3), function(n3) {
    var t3 = (f3.__N || f3.__)[0], r3 = f3.t(t3, n3);
    o2(t3, r3) || (f3.__N = [r3, f3.__[1]], f3.__c.setState({}));
  }], f3.__c = r2, !r2.__f)) {
    r2.__f = true;
    var c3 = r2.shouldComponentUpdate;
    r2.shouldComponentUpdate = function(n3, t3, r3) {
      var u4 = this.__H;
      if (!u4) return true;
      var i4 = false, f4 = this.props != n3;
      if (u4.__.some(function(n4) {
        n4.__N && (i4 = true, o2(n4.__[0], n4.__N[0]) || (f4 = true));
      }), c3) {
        var e3 = c3.call(this, n3, t3, r3);
        return i4 ? e3 || f4 : e3;
      }
      return !i4 || f4;
    };
  }
  return f3.__;
}
function A2(n2, u3) {
  var i3 = y2(t2++, 3);
  !a2.__s && E2(i3.__H, u3) && (i3.__P = true, i3.__ = n2, i3.u = u3, r2.__H.__h.push(i3));
}
function F2(n2, u3) {
  var i3 = y2(t2++, 4);
  !a2.__s && E2(i3.__H, u3) && (i3.__P = false, i3.__ = n2, i3.u = u3, r2.__h.push(i3));
}
function T2(n2) {
  return f2 = 5, w2(function() {
    return { current: n2 };
  }, []);
}
function w2(n2, r3) {
  var u3 = y2(t2++, 7);
  return E2(u3.__H, r3) && (u3.__ = n2(), u3.__H = r3), u3.__;
}
function g2() {
  var n2;
  do {
    for (; n2 = e2.shift(); ) try {
      C2(n2);
    } catch (t4) {
      a2.__e(t4, { __: (n2 = n2.__P) && n2.__v });
    }
    for (; n2 = c2.shift(); ) {
      var t3 = n2.__H;
      if (n2.__P && t3) try {
        t3.__h.some(C2), t3.__h.some(D2), t3.__h = [];
      } catch (r3) {
        t3.__h = [], a2.__e(r3, n2.__v);
      }
    }
  } while (e2.length);
}
a2.__b = function(n2) {
  r2 = null, v2 && v2(n2);
}, a2.__ = function(n2, t3) {
  n2 && t3.__k && t3.__k.__m && (n2.__m = t3.__k.__m), p2 && p2(n2, t3);
}, a2.__r = function(n2) {
  l2 && l2(n2), t2 = 0;
  var i3 = (r2 = n2.__c).__H;
  i3 && (u2 == r2 ? r2.__h = [] : (i3.__h.some(C2), i3.__h.some(D2), t2 = 0), i3.__h = [], i3.__.some(function(n3) {
    n3.__N && (n3.__ = n3.__N), n3.u = n3.__N = void 0;
  })), u2 = r2;
}, a2.diffed = function(n2) {
  m2 && m2(n2);
  var t3 = n2.__c;
  t3 && t3.__H && (t3.__H.__h.length && B2(c2.push(t3)), t3.__H.__.some(function(n3) {
    n3.u && (n3.__H = n3.u);
  })), u2 = r2 = null;
}, a2.__c = function(n2, t3) {
  t3.some(function(n3) {
    try {
      n3.__h.some(C2), n3.__h = n3.__h.filter(function(n4) {
        return !n4.__ || D2(n4);
      });
    } catch (t4) {
      n3.__h = [function() {
        throw t4;
      }];
    }
  }), h2 && h2(n2, t3);
}, a2.unmount = function(n2) {
  s2 && s2(n2);
  var t3, r3, u3 = n2.__c;
  u3 && u3.__H && (u3.__H.__.some(function(u4) {
    try {
      if (u4.__P && u4.__c) {
        if (void 0 === r3) {
          for (r3 = n2.__; r3 && (!r3.__c || !r3.__c.__P); ) r3 = r3.__;
          r3 = r3 && r3.__c;
        }
        u4.__P = r3, B2(e2.push(u4));
      } else C2(u4);
    } catch (n3) {
      t3 = n3;
    }
  }), u3.__H = void 0, t3 && a2.__e(t3, u3.__v));
};
var k2 = "function" == typeof requestAnimationFrame;
function z2(n2) {
  var t3, r3 = function() {
    clearTimeout(u3), k2 && cancelAnimationFrame(t3), setTimeout(n2);
  }, u3 = setTimeout(r3, 35);
  k2 && (t3 = requestAnimationFrame(r3));
}
function B2(n2) {
  1 != n2 && i2 == a2.requestAnimationFrame || ((i2 = a2.requestAnimationFrame) || z2)(g2);
}
function C2(n2) {
  var t3 = r2, u3 = n2.__c;
  "function" == typeof u3 && (n2.__c = void 0, u3()), r2 = t3;
}
function D2(n2) {
  var t3 = r2;
  n2.__c = n2.__(), r2 = t3;
}
function E2(n2, t3) {
  return !n2 || n2.length != t3.length || t3.some(function(t4, r3) {
    return !o2(t4, n2[r3]);
  });
}
function G2(n2, t3) {
  return "function" == typeof t3 ? t3(n2) : t3;
}

// packages/@preact/signals-core/package/src/index.ts
var BRAND_SYMBOL = /* @__PURE__ */ Symbol.for("preact-signals");
var RUNNING = 1 << 0;
var NOTIFIED = 1 << 1;
var OUTDATED = 1 << 2;
var DISPOSED = 1 << 3;
var HAS_ERROR = 1 << 4;
var TRACKING = 1 << 5;
function startBatch() {
  batchDepth++;
}
function endBatch() {
  if (batchDepth > 1) {
    batchDepth--;
    return;
  }
  let error;
  let hasError = false;
  reconcileBatchSnapshots();
  while (batchedEffect !== void 0) {
    let effect2 = batchedEffect;
    batchedEffect = void 0;
    batchIteration++;
    while (effect2 !== void 0) {
      const next = effect2._nextBatchedEffect;
      effect2._nextBatchedEffect = void 0;
      effect2._flags &= ~NOTIFIED;
      if (!(effect2._flags & DISPOSED) && needsToRecompute(effect2)) {
        try {
          effect2._callback();
        } catch (err) {
          if (!hasError) {
            error = err;
            hasError = true;
          }
        }
      }
      effect2 = next;
    }
  }
  batchIteration = 0;
  batchDepth--;
  if (hasError) {
    throw error;
  }
}
function batch(fn) {
  if (batchDepth > 0) {
    return fn();
  }
  currentBatchSnapshotVersion = ++batchSnapshotVersion;
  startBatch();
  try {
    return fn();
  } finally {
    endBatch();
  }
}
var evalContext = void 0;
var capturedEffects;
function untracked(fn) {
  const prevContext = evalContext;
  const prevCapturedEffects = capturedEffects;
  evalContext = void 0;
  capturedEffects = void 0;
  try {
    return fn();
  } finally {
    evalContext = prevContext;
    capturedEffects = prevCapturedEffects;
  }
}
var batchedEffect = void 0;
var batchDepth = 0;
var batchIteration = 0;
var batchSnapshotVersion = 0;
var currentBatchSnapshotVersion = 0;
var batchSnapshots = void 0;
var globalVersion = 0;
function recordBatchSnapshot(source) {
  if (batchDepth === 0 || batchIteration !== 0) {
    return;
  }
  if (source._batchSnapshotVersion !== currentBatchSnapshotVersion) {
    source._batchSnapshotVersion = currentBatchSnapshotVersion;
    batchSnapshots = {
      _source: source,
      _value: source._value,
      _version: source._version,
      _next: batchSnapshots
    };
  }
}
function reconcileBatchSnapshots() {
  let snapshots = batchSnapshots;
  batchSnapshots = void 0;
  while (snapshots !== void 0) {
    const source = snapshots._source;
    if (source._value === snapshots._value) {
      for (let node = source._targets; node !== void 0; node = node._nextTarget) {
        if (node._version === snapshots._version) {
          node._version = source._version;
        }
      }
    }
    snapshots = snapshots._next;
  }
}
function addDependency(signal2) {
  if (evalContext === void 0) {
    return void 0;
  }
  let node = signal2._node;
  if (node === void 0 || node._target !== evalContext) {
    node = {
      _version: 0,
      _source: signal2,
      _prevSource: evalContext._sources,
      _nextSource: void 0,
      _target: evalContext,
      _prevTarget: void 0,
      _nextTarget: void 0,
      _rollbackNode: node
    };
    if (evalContext._sources !== void 0) {
      evalContext._sources._nextSource = node;
    }
    evalContext._sources = node;
    signal2._node = node;
    if (evalContext._flags & TRACKING) {
      signal2._subscribe(node);
    }
    return node;
  } else if (node._version === -1) {
    node._version = 0;
    if (node._nextSource !== void 0) {
      node._nextSource._prevSource = node._prevSource;
      if (node._prevSource !== void 0) {
        node._prevSource._nextSource = node._nextSource;
      }
      node._prevSource = evalContext._sources;
      node._nextSource = void 0;
      evalContext._sources._nextSource = node;
      evalContext._sources = node;
    }
    return node;
  }
  return void 0;
}
function Signal(value, options) {
  this._value = value;
  this._version = 0;
  this._node = void 0;
  this._targets = void 0;
  this._batchSnapshotVersion = 0;
  this._watched = options?.watched;
  this._unwatched = options?.unwatched;
  this.name = options?.name;
}
Signal.prototype.brand = BRAND_SYMBOL;
Signal.prototype._refresh = function() {
  return true;
};
Signal.prototype._subscribe = function(node) {
  const targets = this._targets;
  if (targets !== node && node._prevTarget === void 0) {
    node._nextTarget = targets;
    this._targets = node;
    if (targets !== void 0) {
      targets._prevTarget = node;
    } else {
      untracked(() => {
        this._watched?.call(this);
      });
    }
  }
};
Signal.prototype._unsubscribe = function(node) {
  if (this._targets !== void 0) {
    const prev = node._prevTarget;
    const next = node._nextTarget;
    if (prev !== void 0) {
      prev._nextTarget = next;
      node._prevTarget = void 0;
    }
    if (next !== void 0) {
      next._prevTarget = prev;
      node._nextTarget = void 0;
    }
    if (node === this._targets) {
      this._targets = next;
      if (next === void 0) {
        untracked(() => {
          this._unwatched?.call(this);
        });
      }
    }
  }
};
Signal.prototype.subscribe = function(fn) {
  return effect(
    () => {
      const value = this.value;
      untracked(() => fn(value));
    },
    { name: "sub" }
  );
};
Signal.prototype.valueOf = function() {
  return this.value;
};
Signal.prototype.toString = function() {
  return this.value + "";
};
Signal.prototype.toJSON = function() {
  return this.value;
};
Signal.prototype.peek = function() {
  return untracked(() => this.value);
};
Object.defineProperty(Signal.prototype, "value", {
  get() {
    const node = addDependency(this);
    if (node !== void 0) {
      node._version = this._version;
    }
    return this._value;
  },
  set(value) {
    if (value !== this._value) {
      if (batchIteration > 100) {
        throw new Error("Cycle detected");
      }
      recordBatchSnapshot(this);
      this._value = value;
      this._version++;
      globalVersion++;
      startBatch();
      try {
        for (let node = this._targets; node !== void 0; node = node._nextTarget) {
          node._target._notify();
        }
      } finally {
        endBatch();
      }
    }
  }
});
function signal(value, options) {
  return new Signal(value, options);
}
function needsToRecompute(target) {
  for (let node = target._sources; node !== void 0; node = node._nextSource) {
    if (
      // If the dependency has definitely been updated since its version number
      // was observed, then we need to recompute. This first check is not strictly
      // necessary for correctness, but allows us to skip the refresh call if the
      // dependency has already been updated.
      node._source._version !== node._version || // Refresh the dependency. If there's something blocking the refresh (e.g. a
      // dependency cycle), then we need to recompute.
      !node._source._refresh() || // If the dependency got a new version after the refresh, then we need to recompute.
      node._source._version !== node._version
    ) {
      return true;
    }
  }
  return false;
}
function prepareSources(target) {
  for (let node = target._sources; node !== void 0; node = node._nextSource) {
    const rollbackNode = node._source._node;
    if (rollbackNode !== void 0) {
      node._rollbackNode = rollbackNode;
    }
    node._source._node = node;
    node._version = -1;
    if (node._nextSource === void 0) {
      target._sources = node;
      break;
    }
  }
}
function cleanupSources(target) {
  let node = target._sources;
  let head = void 0;
  while (node !== void 0) {
    const prev = node._prevSource;
    if (node._version === -1) {
      node._source._unsubscribe(node);
      if (prev !== void 0) {
        prev._nextSource = node._nextSource;
      }
      if (node._nextSource !== void 0) {
        node._nextSource._prevSource = prev;
      }
    } else {
      head = node;
    }
    node._source._node = node._rollbackNode;
    if (node._rollbackNode !== void 0) {
      node._rollbackNode = void 0;
    }
    node = prev;
  }
  target._sources = head;
}
function Computed(fn, options) {
  Signal.call(this, void 0, options);
  this._fn = fn;
  this._sources = void 0;
  this._globalVersion = globalVersion - 1;
  this._flags = OUTDATED;
}
Computed.prototype = new Signal();
Computed.prototype._refresh = function() {
  this._flags &= ~NOTIFIED;
  if (this._flags & RUNNING) {
    return false;
  }
  if ((this._flags & (OUTDATED | TRACKING)) === TRACKING) {
    return true;
  }
  this._flags &= ~OUTDATED;
  if (this._globalVersion === globalVersion) {
    return true;
  }
  this._globalVersion = globalVersion;
  this._flags |= RUNNING;
  if (this._version > 0 && !needsToRecompute(this)) {
    this._flags &= ~RUNNING;
    return true;
  }
  const prevContext = evalContext;
  try {
    prepareSources(this);
    evalContext = this;
    const value = this._fn();
    if (this._flags & HAS_ERROR || this._value !== value || this._version === 0) {
      this._value = value;
      this._flags &= ~HAS_ERROR;
      this._version++;
    }
  } catch (err) {
    this._value = err;
    this._flags |= HAS_ERROR;
    this._version++;
  }
  evalContext = prevContext;
  cleanupSources(this);
  this._flags &= ~RUNNING;
  return true;
};
Computed.prototype._subscribe = function(node) {
  if (this._targets === void 0) {
    this._flags |= OUTDATED | TRACKING;
    for (let node2 = this._sources; node2 !== void 0; node2 = node2._nextSource) {
      node2._source._subscribe(node2);
    }
  }
  Signal.prototype._subscribe.call(this, node);
};
Computed.prototype._unsubscribe = function(node) {
  if (this._targets !== void 0) {
    Signal.prototype._unsubscribe.call(this, node);
    if (this._targets === void 0) {
      this._flags &= ~TRACKING;
      for (let node2 = this._sources; node2 !== void 0; node2 = node2._nextSource) {
        node2._source._unsubscribe(node2);
      }
    }
  }
};
Computed.prototype._notify = function() {
  if (!(this._flags & NOTIFIED)) {
    this._flags |= OUTDATED | NOTIFIED;
    for (let node = this._targets; node !== void 0; node = node._nextTarget) {
      node._target._notify();
    }
  }
};
Object.defineProperty(Computed.prototype, "value", {
  get() {
    if (this._flags & RUNNING) {
      throw new Error("Cycle detected");
    }
    const node = addDependency(this);
    this._refresh();
    if (node !== void 0) {
      node._version = this._version;
    }
    if (this._flags & HAS_ERROR) {
      throw this._value;
    }
    return this._value;
  }
});
function computed(fn, options) {
  return new Computed(fn, options);
}
function cleanupEffect(effect2) {
  const cleanup = effect2._cleanup;
  effect2._cleanup = void 0;
  if (typeof cleanup === "function") {
    startBatch();
    const prevContext = evalContext;
    evalContext = void 0;
    try {
      cleanup();
    } catch (err) {
      effect2._flags &= ~RUNNING;
      effect2._flags |= DISPOSED;
      disposeEffect(effect2);
      throw err;
    } finally {
      evalContext = prevContext;
      endBatch();
    }
  }
}
function disposeEffect(effect2) {
  for (let node = effect2._sources; node !== void 0; node = node._nextSource) {
    node._source._unsubscribe(node);
  }
  effect2._fn = void 0;
  effect2._sources = void 0;
  cleanupEffect(effect2);
}
function endEffect(prevContext) {
  if (evalContext !== this) {
    throw new Error("Out-of-order effect");
  }
  cleanupSources(this);
  evalContext = prevContext;
  this._flags &= ~RUNNING;
  try {
    if (this._flags & DISPOSED) {
      disposeEffect(this);
    }
  } finally {
    endBatch();
  }
}
function Effect(fn, options) {
  this._fn = fn;
  this._cleanup = void 0;
  this._sources = void 0;
  this._nextBatchedEffect = void 0;
  this._flags = TRACKING;
  this.name = options?.name;
  if (capturedEffects) {
    capturedEffects.push(this);
  }
}
Effect.prototype._callback = function() {
  const finish = this._start();
  try {
    if (this._flags & DISPOSED) return;
    if (this._fn === void 0) return;
    const cleanup = this._fn();
    if (typeof cleanup === "function") {
      this._cleanup = cleanup;
    }
  } finally {
    finish();
  }
};
Effect.prototype._start = function() {
  if (this._flags & RUNNING) {
    throw new Error("Cycle detected");
  }
  this._flags |= RUNNING;
  this._flags &= ~DISPOSED;
  cleanupEffect(this);
  prepareSources(this);
  startBatch();
  const prevContext = evalContext;
  evalContext = this;
  return endEffect.bind(this, prevContext);
};
Effect.prototype._notify = function() {
  if (!(this._flags & NOTIFIED)) {
    this._flags |= NOTIFIED;
    this._nextBatchedEffect = batchedEffect;
    batchedEffect = this;
  }
};
Effect.prototype._dispose = function() {
  this._flags |= DISPOSED;
  if (!(this._flags & RUNNING)) {
    disposeEffect(this);
  }
};
Effect.prototype.dispose = function() {
  this._dispose();
};
function effect(fn, options) {
  const effect2 = new Effect(fn, options);
  try {
    effect2._callback();
  } catch (err) {
    effect2._dispose();
    throw err;
  }
  const dispose = effect2._dispose.bind(effect2);
  dispose[Symbol.dispose] = dispose;
  return dispose;
}

// packages/@preact/signals/package/src/index.ts
var DEVTOOLS_ENABLED = typeof window !== "undefined" && !!window.__PREACT_SIGNALS_DEVTOOLS__;
var HAS_PENDING_UPDATE = 1 << 0;
var HAS_HOOK_STATE = 1 << 1;
var HAS_COMPUTEDS = 1 << 2;
var IS_UNMOUNTED = 1 << 3;
var oldNotify;
var effectsQueue = [];
var domQueue = [];
effect(function() {
  oldNotify = this._notify;
})();
function hook(hookName, hookFn) {
  n[hookName] = hookFn.bind(null, n[hookName] || (() => {
  }));
}
var currentComponent;
var finishUpdate;
function setCurrentUpdater(updater) {
  if (finishUpdate) {
    const finish = finishUpdate;
    finishUpdate = void 0;
    finish();
  }
  finishUpdate = updater && updater._start();
}
function createUpdater(update, name) {
  let updater;
  effect(
    function() {
      updater = this;
    },
    { name }
  );
  updater._callback = update;
  return updater;
}
function SignalValue({ data }) {
  const currentSignal = useSignal(data);
  currentSignal.name = "ReactiveDom";
  currentSignal.value = data;
  const [isText, s3] = w2(() => {
    let self = this;
    let v3 = this.__v;
    while (v3 = v3.__) {
      if (v3.__c) {
        v3.__c._updateFlags |= HAS_COMPUTEDS;
        break;
      }
    }
    const wrappedSignal = computed(() => {
      let s4 = currentSignal.value.value;
      return s4 === 0 ? 0 : s4 === true ? "" : s4 || "";
    });
    const isText2 = computed(
      () => !Array.isArray(wrappedSignal.value) && !r(wrappedSignal.value)
    );
    const dispose = effect(function() {
      this._notify = notifyDomUpdates;
      if (isText2.value) {
        const value = wrappedSignal.value;
        if (self.__v && self.__v.__e && self.__v.__e.nodeType === 3) {
          self.__v.__e.data = value;
        }
      }
    });
    const oldDispose = this._updater._dispose;
    this._updater._dispose = function() {
      dispose();
      oldDispose.call(this);
    };
    return [isText2, wrappedSignal];
  }, []);
  return isText.value ? s3.peek() : s3.value;
}
SignalValue.displayName = "ReactiveTextNode";
Object.defineProperties(Signal.prototype, {
  constructor: {
    configurable: true,
    value: k($, null).constructor
  },
  type: { configurable: true, value: SignalValue },
  props: {
    configurable: true,
    get() {
      const s3 = this;
      return {
        data: {
          get value() {
            return s3.value;
          }
        }
      };
    }
  },
  // Setting a VNode's _depth to 1 forces Preact to clone it before modifying:
  // https://github.com/preactjs/preact/blob/d7a433ee8463a7dc23a05111bb47de9ec729ad4d/src/diff/children.js#L77
  // @todo remove this for Preact 11
  __b: { configurable: true, value: 1 }
});
hook("__b" /* DIFF */, (old, vnode) => {
  setCurrentUpdater();
  currentComponent = void 0;
  if (typeof vnode.type === "string") {
    let signalProps;
    let props = vnode.props;
    for (let i3 in props) {
      if (i3 === "children") continue;
      let value = props[i3];
      if (value instanceof Signal) {
        if (!signalProps) vnode.__np = signalProps = {};
        signalProps[i3] = value;
        props[i3] = value.peek();
      }
    }
  }
  old(vnode);
});
hook("__r" /* RENDER */, (old, vnode) => {
  old(vnode);
  if (vnode.type !== $) {
    setCurrentUpdater();
    let updater;
    let component = vnode.__c;
    if (component) {
      component._updateFlags &= ~HAS_PENDING_UPDATE;
      updater = component._updater;
      if (updater === void 0) {
        component._updater = updater = createUpdater(
          createComponentUpdateCallback(component),
          typeof vnode.type === "function" ? vnode.type.displayName || vnode.type.name : ""
        );
      }
    }
    currentComponent = component;
    setCurrentUpdater(updater);
  }
});
function createComponentUpdateCallback(component) {
  return function() {
    if (DEVTOOLS_ENABLED) this._debugCallback?.call(this);
    component._updateFlags |= HAS_PENDING_UPDATE;
    component.setState({});
  };
}
hook("__e" /* CATCH_ERROR */, (old, error, vnode, oldVNode) => {
  setCurrentUpdater();
  currentComponent = void 0;
  old(error, vnode, oldVNode);
});
hook("diffed" /* DIFFED */, (old, vnode) => {
  setCurrentUpdater();
  currentComponent = void 0;
  let dom;
  if (typeof vnode.type === "string" && (dom = vnode.__e)) {
    let props = vnode.__np;
    let renderedProps = vnode.props;
    let updaters = dom._updaters;
    if (updaters) {
      for (let prop in updaters) {
        let updater = updaters[prop];
        if (updater !== void 0 && (!props || !(prop in props))) {
          updater._dispose();
          updaters[prop] = void 0;
        }
      }
    }
    if (props) {
      if (!updaters) {
        updaters = {};
        dom._updaters = updaters;
      }
      for (let prop in props) {
        let updater = updaters[prop];
        let signal2 = props[prop];
        if (updater === void 0) {
          updater = createPropUpdater(dom, prop, signal2, renderedProps);
          updaters[prop] = updater;
        } else {
          updater._update(signal2, renderedProps);
        }
      }
    }
  }
  old(vnode);
});
function createPropUpdater(dom, prop, propSignal, props) {
  const setAsProperty = prop in dom && // SVG elements need to go through `setAttribute` because they
  // expect things like SVGAnimatedTransformList instead of strings.
  // @ts-ignore
  dom.ownerSVGElement === void 0;
  const changeSignal = signal(propSignal);
  return {
    _update: (newSignal, newProps) => {
      changeSignal.value = newSignal;
      props = newProps;
    },
    _dispose: effect(function() {
      this._notify = notifyDomUpdates;
      const value = changeSignal.value.value;
      if (props[prop] === value) return;
      props[prop] = value;
      if (setAsProperty) {
        dom[prop] = value;
      } else if (value != null && (value !== false || prop[4] === "-")) {
        dom.setAttribute(prop, value);
      } else {
        dom.removeAttribute(prop);
      }
    })
  };
}
hook("unmount" /* UNMOUNT */, (old, vnode) => {
  if (typeof vnode.type === "string") {
    let dom = vnode.__e;
    if (dom) {
      const updaters = dom._updaters;
      if (updaters) {
        dom._updaters = void 0;
        for (let prop in updaters) {
          let updater = updaters[prop];
          if (updater) updater._dispose();
        }
      }
    }
    let signalProps = vnode.__np;
    if (signalProps) {
      let props = vnode.props;
      for (let prop in signalProps) {
        props[prop] = signalProps[prop];
      }
    }
    vnode.__np = void 0;
  } else {
    let component = vnode.__c;
    if (component) {
      component._updateFlags |= IS_UNMOUNTED;
      const updater = component._updater;
      if (updater) {
        component._updater = void 0;
        updater._dispose();
      }
    }
  }
  old(vnode);
});
hook("__h" /* HOOK */, (old, component, index, type) => {
  if (type < 3)
    component._updateFlags |= HAS_HOOK_STATE;
  old(component, index, type);
});
x.prototype.shouldComponentUpdate = function(props, state) {
  if (this.__R) return true;
  const updater = this._updater;
  const hasSignals = updater && updater._sources !== void 0;
  for (let i3 in state) return true;
  if (this.__f || typeof this.u == "boolean" && this.u === true) {
    const hasHooksState = this._updateFlags & HAS_HOOK_STATE;
    if (!hasSignals && !hasHooksState && !(this._updateFlags & HAS_COMPUTEDS))
      return true;
    if (this._updateFlags & HAS_PENDING_UPDATE) return true;
  } else {
    if (!hasSignals && !(this._updateFlags & HAS_COMPUTEDS)) return true;
    if (this._updateFlags & (HAS_PENDING_UPDATE | HAS_HOOK_STATE)) return true;
  }
  for (let i3 in props) {
    if (i3 !== "__source" && props[i3] !== this.props[i3]) return true;
  }
  for (let i3 in this.props) if (!(i3 in props)) return true;
  return false;
};
function useSignal(value, options) {
  return w2(
    () => signal(value, options),
    []
  );
}
function useComputed(compute, options) {
  const $compute = T2(compute);
  $compute.current = compute;
  currentComponent._updateFlags |= HAS_COMPUTEDS;
  return w2(() => computed(() => $compute.current(), options), []);
}
function safeRaf(callback) {
  const done = () => {
    clearTimeout(timeout);
    cancelAnimationFrame(raf);
    callback();
  };
  const timeout = setTimeout(done, 35);
  const raf = requestAnimationFrame(done);
}
var deferEffects = typeof requestAnimationFrame === "undefined" ? setTimeout : safeRaf;
var deferDomUpdates = (cb) => {
  queueMicrotask(() => {
    queueMicrotask(cb);
  });
};
function flushEffects() {
  batch(() => {
    let inst;
    while (inst = effectsQueue.shift()) {
      oldNotify.call(inst);
    }
  });
}
function notifyEffects() {
  if (effectsQueue.push(this) === 1) {
    (n.requestAnimationFrame || deferEffects)(flushEffects);
  }
}
function flushDomUpdates() {
  batch(() => {
    let inst;
    while (inst = domQueue.shift()) {
      oldNotify.call(inst);
    }
  });
}
function notifyDomUpdates() {
  if (domQueue.push(this) === 1) {
    (n.requestAnimationFrame || deferDomUpdates)(flushDomUpdates);
  }
}
function useSignalEffect(cb, options) {
  const callback = T2(cb);
  callback.current = cb;
  const owner = currentComponent;
  A2(() => {
    return effect(function() {
      this._notify = notifyEffects;
      if (owner && owner._updateFlags & IS_UNMOUNTED) return;
      return callback.current();
    }, options);
  }, []);
}

// packages/htm/package/src/constants.mjs
var MINI = false;

// packages/htm/package/src/build.mjs
var MODE_SLASH = 0;
var MODE_TEXT = 1;
var MODE_WHITESPACE = 2;
var MODE_TAGNAME = 3;
var MODE_COMMENT = 4;
var MODE_PROP_SET = 5;
var MODE_PROP_APPEND = 6;
var CHILD_APPEND = 0;
var CHILD_RECURSE = 2;
var TAG_SET = 3;
var PROPS_ASSIGN = 4;
var PROP_SET = MODE_PROP_SET;
var PROP_APPEND = MODE_PROP_APPEND;
var evaluate = (h3, built, fields, args) => {
  let tmp;
  built[0] = 0;
  for (let i3 = 1; i3 < built.length; i3++) {
    const type = built[i3++];
    const value = built[i3] ? (built[0] |= type ? 1 : 2, fields[built[i3++]]) : built[++i3];
    if (type === TAG_SET) {
      args[0] = value;
    } else if (type === PROPS_ASSIGN) {
      args[1] = Object.assign(args[1] || {}, value);
    } else if (type === PROP_SET) {
      (args[1] = args[1] || {})[built[++i3]] = value;
    } else if (type === PROP_APPEND) {
      args[1][built[++i3]] += value + "";
    } else if (type) {
      tmp = h3.apply(value, evaluate(h3, value, fields, ["", null]));
      args.push(tmp);
      if (value[0]) {
        built[0] |= 2;
      } else {
        built[i3 - 2] = CHILD_APPEND;
        built[i3] = tmp;
      }
    } else {
      args.push(value);
    }
  }
  return args;
};
var build = function(statics) {
  const fields = arguments;
  const h3 = this;
  let mode = MODE_TEXT;
  let buffer = "";
  let quote = "";
  let current = [0];
  let char, propName;
  const commit = (field) => {
    if (mode === MODE_TEXT && (field || (buffer = buffer.replace(/^\s*\n\s*|\s*\n\s*$/g, "")))) {
      if (MINI) {
        current.push(field ? fields[field] : buffer);
      } else {
        current.push(CHILD_APPEND, field, buffer);
      }
    } else if (mode === MODE_TAGNAME && (field || buffer)) {
      if (MINI) {
        current[1] = field ? fields[field] : buffer;
      } else {
        current.push(TAG_SET, field, buffer);
      }
      mode = MODE_WHITESPACE;
    } else if (mode === MODE_WHITESPACE && buffer === "..." && field) {
      if (MINI) {
        current[2] = Object.assign(current[2] || {}, fields[field]);
      } else {
        current.push(PROPS_ASSIGN, field, 0);
      }
    } else if (mode === MODE_WHITESPACE && buffer && !field) {
      if (MINI) {
        (current[2] = current[2] || {})[buffer] = true;
      } else {
        current.push(PROP_SET, 0, true, buffer);
      }
    } else if (mode >= MODE_PROP_SET) {
      if (MINI) {
        if (mode === MODE_PROP_SET) {
          (current[2] = current[2] || {})[propName] = field ? buffer ? buffer + fields[field] : fields[field] : buffer;
          mode = MODE_PROP_APPEND;
        } else if (field || buffer) {
          current[2][propName] += field ? buffer + fields[field] : buffer;
        }
      } else {
        if (buffer || !field && mode === MODE_PROP_SET) {
          current.push(mode, 0, buffer, propName);
          mode = MODE_PROP_APPEND;
        }
        if (field) {
          current.push(mode, field, 0, propName);
          mode = MODE_PROP_APPEND;
        }
      }
    }
    buffer = "";
  };
  for (let i3 = 0; i3 < statics.length; i3++) {
    if (i3) {
      if (mode === MODE_TEXT) {
        commit();
      }
      commit(i3);
    }
    for (let j2 = 0; j2 < statics[i3].length; j2++) {
      char = statics[i3][j2];
      if (mode === MODE_TEXT) {
        if (char === "<") {
          commit();
          if (MINI) {
            current = [current, "", null];
          } else {
            current = [current];
          }
          mode = MODE_TAGNAME;
        } else {
          buffer += char;
        }
      } else if (mode === MODE_COMMENT) {
        if (buffer === "--" && char === ">") {
          mode = MODE_TEXT;
          buffer = "";
        } else {
          buffer = char + buffer[0];
        }
      } else if (quote) {
        if (char === quote) {
          quote = "";
        } else {
          buffer += char;
        }
      } else if (char === '"' || char === "'") {
        quote = char;
      } else if (char === ">") {
        commit();
        mode = MODE_TEXT;
      } else if (!mode) {
      } else if (char === "=") {
        mode = MODE_PROP_SET;
        propName = buffer;
        buffer = "";
      } else if (char === "/" && (mode < MODE_PROP_SET || statics[i3][j2 + 1] === ">")) {
        commit();
        if (mode === MODE_TAGNAME) {
          current = current[0];
        }
        mode = current;
        if (MINI) {
          (current = current[0]).push(h3.apply(null, mode.slice(1)));
        } else {
          (current = current[0]).push(CHILD_RECURSE, 0, mode);
        }
        mode = MODE_SLASH;
      } else if (char === " " || char === "	" || char === "\n" || char === "\r") {
        commit();
        mode = MODE_WHITESPACE;
      } else {
        buffer += char;
      }
      if (mode === MODE_TAGNAME && buffer === "!--") {
        mode = MODE_COMMENT;
        current = current[0];
      }
    }
  }
  commit();
  if (MINI) {
    return current.length > 2 ? current.slice(1) : current[1];
  }
  return current;
};

// packages/htm/package/src/index.mjs
var CACHES = /* @__PURE__ */ new Map();
var regular = function(statics) {
  let tmp = CACHES.get(this);
  if (!tmp) {
    tmp = /* @__PURE__ */ new Map();
    CACHES.set(this, tmp);
  }
  tmp = evaluate(this, tmp.get(statics) || (tmp.set(statics, tmp = build(statics)), tmp), arguments, []);
  return tmp.length > 1 ? tmp : tmp[0];
};
var src_default = MINI ? build : regular;

// entry.js
var html = src_default.bind(k);
export {
  $ as Fragment,
  batch,
  computed,
  effect,
  k as h,
  html,
  Q as render,
  signal,
  useComputed,
  A2 as useEffect,
  F2 as useLayoutEffect,
  w2 as useMemo,
  T2 as useRef,
  useSignal,
  useSignalEffect,
  d2 as useState
};
