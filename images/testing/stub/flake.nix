{
  # For tests only: stands in for nixpkgs where none can be had, so that an image's build really runs in Nix.
  #   nix build .#image-base --override-input nixpkgs path:./images/testing/stub --no-write-lock-file
  # It takes the host's /bin/sh and python3, so the sandbox must be off. Downloads are taken from the store:
  # `nix-store --add-fixed sha256 <sha256>.deb` puts them where fetchurl's outputs would lie.
  outputs = { self }:
    let
      system = "x86_64-linux";
      lib = {
        genAttrs = names: f: builtins.listToAttrs (map (name: { inherit name; value = f name; }) names);
        concatMap = builtins.concatMap;
        removePrefix = prefix: text:
          let length = builtins.stringLength prefix; in
          if builtins.substring 0 length text == prefix
          then builtins.substring length (builtins.stringLength text) text
          else text;
      };
      runCommand = name: env: script: derivation ({
        inherit name system;
        builder = "/bin/sh";
        args = [ "-e" "-c" ("export PATH=/usr/bin:/bin TMPDIR=$NIX_BUILD_TOP\n" + script) ];
      } // builtins.removeAttrs env [ "nativeBuildInputs" ]);
      fixed = name: sha256: derivation {
        inherit name;
        builder = "builtin:fetchurl";
        system = "builtin";
        url = "file:///nowhere/${name}";
        outputHash = sha256;
        outputHashAlgo = "sha256";
        outputHashMode = "flat";
        preferLocalBuild = true;
        unpack = false;
        executable = false;
      };
    in
    {
      inherit lib;
      legacyPackages.${system} = {
        inherit lib runCommand;
        fetchurl = { name, urls, sha256 }: fixed name sha256;
        python3Packages.fetchPypi = { sha256, ... }: fixed "${sha256}.whl" sha256;
        python3 = { };
        linkFarm = name: entries: runCommand name
          {
            passAsFile = [ "links" ];
            links = builtins.concatStringsSep "" (map (entry: "ln -s ${entry.path} ${entry.name}\n") entries);
          } "mkdir -p $out; cd $out; . $linksPath";
        mkShell = _: runCommand "nix-shell" { } "touch $out";
      };
    };
}
