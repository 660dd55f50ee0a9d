"""The titles and epithets that stand before a name and make it no other."""

FEMALE = frozenset("mrs ms miss lady madam madame mme queen princess duchess countess mother aunt sister dame dona".split())
TITLES = FEMALE | frozenset(
    """
    mr dr sir lord captain capt father fr uncle king saint st professor prof judge mayor president senator sen gov governor rep
    representative gen general col colonel lt lieutenant major maj sergeant sgt prince duke count earl baron rev reverend minister
    doctor monsieur don pope bishop archbishop cardinal chancellor ambassador secretary justice chairman director inspector
    """.split()
)
EPITHETS = frozenset("old young poor little dear good o oh master mistress cousin brother".split())
