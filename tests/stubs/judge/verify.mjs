// node verify.mjs BUNDLE TRUSTED_ROOT IDENTITY ISSUER TYPE RECORD: what npm's own verifier says. Status 0, or 1 and why.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { bundleFromJSON } from "@sigstore/bundle";
import { TrustedRoot } from "@sigstore/protobuf-specs";
import { toSignedEntity, toTrustMaterial, Verifier } from "@sigstore/verify";

const [bundlePath, rootPath, identity, issuer, type, recordPath] = process.argv.slice(2);
const json = (path) => JSON.parse(readFileSync(path, "utf8"));
// Its policy takes the name as a pattern, so an exact name is written as one.
const exact = (text) => `^${text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")}$`;

try {
  const bundle = bundleFromJSON(json(bundlePath));
  const verifier = new Verifier(toTrustMaterial(TrustedRoot.fromJSON(json(rootPath))));
  verifier.verify(toSignedEntity(bundle), { subjectAlternativeName: exact(identity), extensions: { issuer } });
  // What the signature covers is the caller's to read, as npm does itself.
  const statement = JSON.parse(bundle.content.dsseEnvelope.payload.toString());
  const digest = createHash("sha256").update(readFileSync(recordPath)).digest("hex");
  if (statement.predicateType !== type) throw new Error(`PREDICATE_TYPE ${statement.predicateType}`);
  if (!statement.subject.some((one) => one.digest.sha256 === digest)) throw new Error("SUBJECT not this record");
  console.log("Verified OK");
} catch (error) {
  console.error(`${error.code ?? error.name}: ${error.message}`);
  process.exit(1);
}
