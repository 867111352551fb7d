{
  description = "A bench appliance: development shell, package, and the trial images from their locks";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      forEachSystem = f: lib.genAttrs [ "x86_64-linux" ] (system: f nixpkgs.legacyPackages.${system});

      # ---- what images/ says ---------------------------------------------------------------------
      folders = builtins.readDir ./images;
      # npm packages and programs from source come by other roads: those images are built without Nix.
      buildable = name: builtins.all
        (image: builtins.all (entry: builtins.elem entry.kind [ "deb" "wheel" "file" ]) (lockOf image).entries)
        (chainOf name);
      names = builtins.filter
        (name: folders.${name} == "directory" && builtins.pathExists (./images + "/${name}/image.lock.json") && buildable name)
        (builtins.attrNames folders);
      specOf = name: builtins.fromTOML (builtins.readFile (./images + "/${name}/image.toml"));
      lockOf = name: builtins.fromJSON (builtins.readFile (./images + "/${name}/image.lock.json"));
      chainOf = name:
        let spec = specOf name; in
        (if spec ? base then chainOf spec.base else [ ]) ++ (if spec ? python then chainOf spec.python else [ ]) ++ [ name ];

      # Only what decides an image's bytes: an edit elsewhere builds nothing anew.
      relative = path: lib.removePrefix (toString ./. + "/") (toString path);
      sources = builtins.path {
        name = "bench-image-sources";
        path = ./.;
        filter = path: type:
          let at = relative path; in
          if type == "directory"
          then builtins.elem at [ "appliance" "appliance/images" "appliance/images/builder" "images" ]
            || builtins.match "images/[^/]+" at != null
          else builtins.elem at [ "appliance/__init__.py" "appliance/errors.py" "appliance/digests.py" "appliance/reading.py" "appliance/images/__init__.py" ]
            || builtins.match "appliance/images/builder/[a-z_]+[.]py" at != null
            || builtins.match "images/[^/]+/image[.](toml|lock[.]json)" at != null;
      };

      # ---- locked packages -----------------------------------------------------------------------
      # Names in the store are digests: versions may hold `~`, which a store name may not. No host is
      # written here: nixpkgs knows the mirrors of Debian, and where PyPI keeps its files.
      wheelParts = file: builtins.match "([^-]+)-([^-]+)-([^-]+)-([^-]+)-([^-]+)[.]whl" file;
      fetched = pkgs: image: entry:
        if entry.kind == "deb" then
          pkgs.fetchurl
            {
              name = "${entry.sha256}.deb";
              urls = [ "mirror://debian/${entry.path}" ];
              inherit (entry) sha256;
            }
        else if entry.kind == "wheel" then
          let part = builtins.elemAt (wheelParts entry.path); in
          pkgs.python3Packages.fetchPypi
            {
              pname = part 0;
              version = part 1;
              format = "wheel";
              dist = part 2;
              python = part 2;
              abi = part 3;
              platform = part 4;
              inherit (entry) sha256;
            }
        else if entry.kind == "file" then ./images + "/${image}/${entry.path}"
        else throw "images/${image}: ${entry.kind} packages cannot be built yet";
      storeOf = pkgs: name: pkgs.linkFarm "bench-packages-${name}" (lib.concatMap
        (image: map (entry: { name = entry.sha256; path = fetched pkgs image entry; }) (lockOf image).entries)
        (chainOf name));

      # ---- images: the same lock and the same builder as without Nix, hence the same pin ---------
      imageOf = pkgs: name: pkgs.runCommand "bench-image-${name}" { nativeBuildInputs = [ pkgs.python3 ]; } ''
        PYTHONPATH=${sources} python3 -B -m appliance.images.builder \
          ${sources}/images ${name} ${storeOf pkgs name} $out
      '';
      checkOf = pkgs: name: pkgs.runCommand "bench-pin-${name}"
        {
          nativeBuildInputs = [ pkgs.python3 ];
          wanted = builtins.toJSON (lockOf name).pin;
          built = "${imageOf pkgs name}/pin.json";
        } ''
        python3 - <<'PY'
        import json, os, pathlib, sys
        wanted, built = json.loads(os.environ["wanted"]), json.loads(pathlib.Path(os.environ["built"]).read_text())
        sys.exit(0 if wanted == built else f"built {built}, locked {wanted}")
        PY
        touch $out
      '';
      forEachImage = prefix: f: builtins.listToAttrs
        (map (name: { name = "${prefix}-${name}"; value = f name; }) names);
    in
    {
      packages = forEachSystem (pkgs: forEachImage "image" (imageOf pkgs) // {
        default = pkgs.python3Packages.buildPythonApplication {
          pname = "bench-appliance";
          version = (builtins.fromTOML (builtins.readFile ./pyproject.toml)).project.version;
          pyproject = true;
          src = ./.;
          build-system = [ pkgs.python3Packages.hatchling ];
          dependencies = map (name: pkgs.python3Packages.${name}) [
            "asn1crypto"
            "cryptography"
            "docker"
            "genai-prices"
            "h11"
            "httpx2"
            "jsonschema"
            "jsonschema-rs"
            "pydantic"
            "pyjwt"
            "rfc8785"
            "rich"
            "sigstore"
            "typer"
          ];
        };
      });

      checks = forEachSystem (pkgs: forEachImage "pin" (checkOf pkgs));

      devShells = forEachSystem (pkgs: {
        default = pkgs.mkShell { packages = [ pkgs.python3 pkgs.git pkgs.gnumake pkgs.docker-client ]; };
      });
    };
}
