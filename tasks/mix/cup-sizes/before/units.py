"""Kitchen measures in millilitres."""

TEASPOON_ML = 4.92892
TABLESPOON_ML = 14.7868
FLUID_OUNCE_ML = 28.3495
CUP_ML = 236.588

ML = {"tsp": TEASPOON_ML, "tbsp": TABLESPOON_ML, "fl oz": FLUID_OUNCE_ML, "cup": CUP_ML}


def to_ml(amount, unit):
    return round(amount * ML[unit], 1)
