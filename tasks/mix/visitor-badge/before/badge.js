'use strict';

/** What the printer at the front desk puts on a badge, line by line. */
function badge(name, company) {
  const lines = ['VISTOR', name.toUpperCase()];
  if (company) {
    lines.push(`of ${company}`);
  }
  return lines.join('\n');
}

module.exports = { badge };
